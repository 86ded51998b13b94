"""The language of what Slack shows: of the person where only they see it, else the workspace's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.conf import settings
from django.contrib.auth.models import User
from django.utils import translation

from approvals.http.preferences import preferences_of
from approvals.models import SlackIdentity, SlackMessage, SlackWorkspace


@contextmanager
def in_language_of_workspace(workspace: SlackWorkspace) -> Iterator[None]:
    """Texts of this block are for all who read a channel there."""
    with translation.override(workspace.language or settings.LANGUAGE_CODE):
        yield


@contextmanager
def in_language_of(user: User, workspace: SlackWorkspace) -> Iterator[None]:
    """Texts of this block are for this person alone."""
    language = preferences_of(user).language or workspace.language
    with translation.override(language or settings.LANGUAGE_CODE):
        yield


@contextmanager
def in_language_of_message(message: SlackMessage) -> Iterator[None]:
    """Of the workspace, and of the person for a direct message to one who is linked."""
    linked = SlackIdentity.objects.filter(
        workspace=message.workspace, slack_user_id=message.target
    ).select_related("user")
    identity = linked.first()
    if identity is None:
        with in_language_of_workspace(message.workspace):
            yield
    else:
        with in_language_of(identity.user, message.workspace):
            yield
