"""In which language to answer the person who acted in Slack."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial

from django.conf import settings
from django.utils import translation

from approvals.models import SlackIdentity, SlackWorkspace
from approvals.slack.interactions.commands import Source
from approvals.slack.interactions.deadlines import READS, statement_timeout
from approvals.slack.languages import in_language_of, in_language_of_workspace

logger = logging.getLogger(__name__)

# A modal has to be open within Slack's 3 seconds, and other work needs most of them.
LIMIT = timedelta(milliseconds=300)


@contextmanager
def in_language_of_reader(source: Source) -> Iterator[None]:
    """Texts of this block are in the language of who acted, else in the workspace's.

    In the installation's language if the database does not say in ``LIMIT``.
    """
    try:
        language = READS.run(partial(_language_in_time, source), limit=LIMIT)
    except Exception as failure:
        logger.info("no language for an answer in Slack: %s", failure)
        language = settings.LANGUAGE_CODE
    with translation.override(language):
        yield


def _language_in_time(source: Source) -> str:
    with statement_timeout(LIMIT):
        return language_of(source)


def language_of(source: Source) -> str:
    """Of the linked person, else of the workspace, else of the installation."""
    linked = SlackIdentity.objects.filter(slack_user_id=source.user, user__is_active=True)
    identity = linked.select_related("user", "workspace").first()
    if identity is not None:
        with in_language_of(identity.user, identity.workspace):
            return translation.get_language()
    workspace = SlackWorkspace.objects.filter(team_id=source.team).first()
    if workspace is None:
        return settings.LANGUAGE_CODE
    with in_language_of_workspace(workspace):
        return translation.get_language()
