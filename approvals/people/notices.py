"""Notices to a person of the changes of their account.

The desk shows them until they are dismissed; linked Slack users get them as messages, too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.utils.translation import gettext as _, gettext_noop

from approvals.models import Notice
from approvals.people.principals import principal_of, role_in_words
from ledger.events import ChangeKind, outbox
from ledger.models import Event
from ledger.principals import Principal
from ledger.sign_off import passkeys

NOTICES = "notice"  # of the delivery channel
# Texts by kind of event: for a change by somebody else, and for one by the person themselves.
BY_ANOTHER: dict[str, str] = {
    ChangeKind.USER_RENAMED: gettext_noop("{who} changed the name of your account."),
    ChangeKind.EMAIL_CHANGED: gettext_noop("{who} changed the e-mail address of your account."),
    ChangeKind.USER_ACTIVATED: gettext_noop("{who} opened your account again."),
    ChangeKind.PASSWORD_CHANGED: gettext_noop("{who} set a new password for your account."),
    ChangeKind.PERSON_INVITED: gettext_noop(
        "{who} made a link with which your account can be entered."
    ),
    ChangeKind.ACCESS_RESET: gettext_noop(
        "{who} reset how you sign in: your password, passkeys, codes and sessions ended."
    ),
    ChangeKind.RESET_ASKED: gettext_noop(
        "Somebody asked for a new password for your account. The link went to your e-mail address."
    ),
    ChangeKind.PASSKEY_ADDED: gettext_noop("{who} added a passkey to your account."),
    ChangeKind.AUTHENTICATOR_ADDED: gettext_noop(
        "{who} added an authenticator app to your account."
    ),
    ChangeKind.RECOVERY_CODES_MADE: gettext_noop("{who} made new recovery codes for your account."),
    ChangeKind.RECOVERY_CODE_USED: gettext_noop("{who} signed in with a recovery code of yours."),
    ChangeKind.PASSKEY_REMOVED: gettext_noop("{who} removed a passkey of yours."),
    ChangeKind.AUTHENTICATOR_REMOVED: gettext_noop("{who} removed your authenticator app."),
    ChangeKind.SIGNING_KEY_ENROLLED: gettext_noop(
        "Two operators, {who} the second, let your passkey {fingerprint} sign decisions from "
        "{signs_from}. If it is not yours, stop it on your account page."
    ),
    ChangeKind.SIGNING_KEY_ENDED: gettext_noop("{who} ended a key with which you sign decisions."),
    ChangeKind.COMPANY_CONNECTED: gettext_noop("{who} connected your account with {company}."),
    ChangeKind.COMPANY_DISCONNECTED: gettext_noop(
        "{who} disconnected your account from {company}."
    ),
    ChangeKind.SESSIONS_ENDED: gettext_noop("{who} signed you out everywhere."),
    ChangeKind.SIGN_IN_BLOCKED: gettext_noop(
        "Somebody failed too often to sign in as you. They have to wait; your account stays open."
    ),
    ChangeKind.ROLE_GRANTED: gettext_noop("{who} gave you the role {role} in {tenant}."),
    ChangeKind.ROLE_REVOKED: gettext_noop("{who} took the role {role} in {tenant} from you."),
    ChangeKind.STAFF_GRANTED: gettext_noop("{who} let you into the admin."),
    ChangeKind.STAFF_REVOKED: gettext_noop("{who} shut you out of the admin."),
    ChangeKind.SUPERUSER_GRANTED: gettext_noop("{who} made you a superuser."),
    ChangeKind.SUPERUSER_REVOKED: gettext_noop("{who} took your rights of a superuser."),
    ChangeKind.PERMISSIONS_CHANGED: gettext_noop("{who} changed what you may do in the admin."),
}
BY_THEMSELVES: dict[str, str] = {
    ChangeKind.PASSWORD_CHANGED: gettext_noop(
        "You changed your password. Your other sessions were ended."
    ),
    ChangeKind.EMAIL_CHANGED: gettext_noop("You changed the e-mail address of your account."),
    ChangeKind.PASSKEY_ADDED: gettext_noop("You added a passkey to your account."),
    ChangeKind.PASSKEY_REMOVED: gettext_noop("You removed a passkey from your account."),
    ChangeKind.AUTHENTICATOR_ADDED: gettext_noop("You added an authenticator app to your account."),
    ChangeKind.AUTHENTICATOR_REMOVED: gettext_noop(
        "You removed the authenticator app from your account."
    ),
    ChangeKind.SIGNING_KEY_ENROLLED: gettext_noop(
        "You let your passkey {fingerprint} sign decisions from {signs_from}. If it was not "
        "you, stop it on your account page."
    ),
    ChangeKind.SIGNING_KEY_ENDED: gettext_noop("You ended a key with which you sign decisions."),
    ChangeKind.RECOVERY_CODE_USED: gettext_noop("You signed in with a recovery code."),
    ChangeKind.COMPANY_CONNECTED: gettext_noop("You connected your account with {company}."),
    ChangeKind.COMPANY_DISCONNECTED: gettext_noop("You disconnected your account from {company}."),
}


def describe(by_another: Mapping[Any, str], by_themselves: Mapping[Any, str]) -> None:
    """Add the texts of another package's kinds of change, in ``AppConfig.ready()``."""
    BY_ANOTHER.update(by_another)
    BY_THEMSELVES.update(by_themselves)


def notice_text(event: Event, person: User) -> str:
    """The text of the notice; empty if the person need not be told."""
    return _template(event.kind, event.principal, person).format(**_template_values(event))


def _template(kind: str, by: str, person: User) -> str:
    templates = BY_THEMSELVES if by == str(principal_of(person)) else BY_ANOTHER
    return _(templates[kind]) if kind in templates else ""


def _template_values(event: Event) -> dict[str, str]:
    details: dict[str, Any] = json.loads(event.details)
    values = {"who": event.principal_name, "tenant": event.tenant}
    values |= {"role": "", "slack_user": "", "company": ""}
    values |= {name: str(value) for name, value in details.items() if name in values}
    if event.kind == ChangeKind.SIGNING_KEY_ENROLLED:
        signs_from = event.at + timedelta(seconds=int(details[passkeys.WAITS]))
        values["fingerprint"] = passkeys.SigningKey(**details[passkeys.KEY]).fingerprint
        values["signs_from"] = f"{signs_from:%Y-%m-%d %H:%M} UTC"
    return values | {"role": role_in_words(values["role"])}


def deliveries(person: User, kind: str, by: Principal) -> list[tuple[str, str]]:
    """Channel and recipient of the notice by Slack; none if Slack is not set up."""
    is_set_up = settings.HAS_SLACK or settings.SLACK_BOT_TOKENS
    can_be_sent = is_set_up and NOTICES in outbox.channels
    if can_be_sent and _template(kind, str(by), person):
        return [(NOTICES, str(principal_of(person)))]
    return []


def show_on_desk(person: User, event: Event) -> None:
    """Show the notice on the desk until the person dismisses it."""
    if _template(event.kind, event.principal, person):
        Notice.objects.create(user=person, event=event)


def notices_for(person: User) -> QuerySet[Notice]:
    """The notices that the person has not dismissed."""
    return Notice.objects.filter(user=person, dismissed_at=None).select_related("event")


def dismiss_all_notices(person: User) -> None:
    """For a person who comes in for the first time: what was changed before is not news to them."""
    notices_for(person).update(dismissed_at=Now())


def dismiss_one_notice(notice_id: int, person: User) -> bool:
    """Returns False if the person has no such open notice."""
    return bool(notices_for(person).filter(pk=notice_id).update(dismissed_at=Now()))
