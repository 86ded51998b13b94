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
from ledger.events.account_changes import ChangeKind
from ledger.models import Event
from ledger.principals import Principal

NAME = "notice"
# What is said to the person: by somebody else, and of their own doing where that is said at all.
BY_ANOTHER: dict[str, str] = {
    ChangeKind.USER_RENAMED: "{who} changed the name of your account.",
    ChangeKind.EMAIL_CHANGED: "{who} changed the e-mail address of your account.",
    ChangeKind.USER_ACTIVATED: "{who} opened your account again.",
    ChangeKind.PASSWORD_CHANGED: "{who} set a new password for your account.",
    ChangeKind.ROLE_GRANTED: "{who} gave you the role {role} in {tenant}.",
    ChangeKind.ROLE_REVOKED: "{who} took the role {role} in {tenant} from you.",
    ChangeKind.STAFF_GRANTED: "{who} let you into the admin.",
    ChangeKind.STAFF_REVOKED: "{who} shut you out of the admin.",
    ChangeKind.SUPERUSER_GRANTED: "{who} made you a superuser.",
    ChangeKind.SUPERUSER_REVOKED: "{who} took your rights of a superuser.",
    ChangeKind.PERMISSIONS_CHANGED: "{who} changed what you may do in the admin.",
    ChangeKind.SLACK_LINK_ASKED: "{who} asked to link your account with the Slack user "
    "{slack_user}. A link waits there; it counts when you open it here, signed in, and confirm.",
    ChangeKind.SLACK_LINKED: "Your account was linked with the Slack user {slack_user}.",
    ChangeKind.SLACK_UNLINKED: "{who} unlinked your account from the Slack user {slack_user}.",
}
BY_THEMSELVES: dict[str, str] = {
    ChangeKind.PASSWORD_CHANGED: "You changed your password. Your other sessions were ended.",
    ChangeKind.SLACK_LINKED: "You linked your account with the Slack user {slack_user}.",
    ChangeKind.SLACK_UNLINKED: "You unlinked your account from the Slack user {slack_user}.",
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
