"""Telling a person what was changed about their account.

Notices stand on the desk; ``approvals.slack.messages.notices`` sends them to linked Slack users.
"""

from __future__ import annotations

import json
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.db.models.functions import Now

from approvals.models import Notice
from approvals.people.principals import principal_of
from ledger.models import Event
from ledger.principals import Principal

NAME = "notice"
# What is said to the person: by somebody else, and of their own doing where that is said at all.
BY_ANOTHER = {
    "user_renamed": "{who} changed the name of your account.",
    "email_changed": "{who} changed the e-mail address of your account.",
    "user_activated": "{who} opened your account again.",
    "password_changed": "{who} set a new password for your account.",
    "role_granted": "{who} gave you the role {role} in {tenant}.",
    "role_revoked": "{who} took the role {role} in {tenant} from you.",
    "staff_granted": "{who} let you into the admin.",
    "staff_revoked": "{who} shut you out of the admin.",
    "superuser_granted": "{who} made you a superuser.",
    "superuser_revoked": "{who} took your rights of a superuser.",
    "permissions_changed": "{who} changed what you may do in the admin.",
    "slack_link_asked": "{who} asked to link your account with the Slack user {slack_user}. "
    "A link waits there; it counts when you open it here, signed in, and confirm.",
    "slack_linked": "Your account was linked with the Slack user {slack_user}.",
    "slack_unlinked": "{who} unlinked your account from the Slack user {slack_user}.",
}
BY_THEMSELVES = {
    "password_changed": "You changed your password. Your other sessions were ended.",
    "slack_linked": "You linked your account with the Slack user {slack_user}.",
    "slack_unlinked": "You unlinked your account from the Slack user {slack_user}.",
}


def text_of(event: Event, person: User) -> str:
    """Empty if the person need not be told."""
    return _words(event.kind, event.principal, person).format(**_facts(event))


def _words(kind: str, by: str, person: User) -> str:
    said = BY_THEMSELVES if by == str(principal_of(person)) else BY_ANOTHER
    return said.get(kind, "")


def _facts(event: Event) -> dict[str, str]:
    details: dict[str, Any] = json.loads(event.details)
    facts = {"who": event.principal_name, "tenant": event.tenant, "role": "", "slack_user": ""}
    return facts | {name: str(value) for name, value in details.items() if name in facts}


def owed(person: User, kind: str, by: Principal) -> list[tuple[str, str]]:
    """The delivery that the event owes the person; by Slack nobody else is told."""
    if _words(kind, str(by), person) and settings.SLACK_BOT_TOKENS:
        return [(NAME, str(principal_of(person)))]
    return []


def leave(person: User, event: Event) -> None:
    """On the desk, until it is dismissed."""
    if _words(event.kind, event.principal, person):
        Notice.objects.create(user=person, event=event)


def waiting_for(person: User) -> QuerySet[Notice]:
    return Notice.objects.filter(user=person, dismissed_at=None).select_related("event")


def dismiss(notice_id: int, person: User) -> bool:
    return bool(waiting_for(person).filter(pk=notice_id).update(dismissed_at=Now()))
