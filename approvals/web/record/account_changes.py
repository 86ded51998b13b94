"""Changes of accounts that wait for a second operator, in words."""

from __future__ import annotations

from collections.abc import Iterator

from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _, gettext_noop, ngettext

from approvals.models import Role
from approvals.people import (
    enrolled,
    event_details,
    knows_way_in,
    names_of,
    person_of_request,
    role_in_words,
    waiting_time_of,
)
from approvals.web.record.pending import Pending, show, strong
from ledger.events import ChangeKind
from ledger.models import ChangeRequest, RequestState
from ledger.sign_off import passkeys

ASKED: dict[str, str] = {
    ChangeKind.ROLE_GRANTED: gettext_noop(
        "{asker} asks to give the role {role} in {tenant} to {name}."
    ),
    ChangeKind.ROLE_REVOKED: gettext_noop(
        "{asker} asks to take the role {role} in {tenant} from {name}."
    ),
    ChangeKind.USER_ACTIVATED: gettext_noop("{asker} asks to open the account of {name}."),
    ChangeKind.USER_DEACTIVATED: gettext_noop("{asker} asks to close the account of {name}."),
    ChangeKind.STAFF_GRANTED: gettext_noop("{asker} asks to let {name} into the admin."),
    ChangeKind.STAFF_REVOKED: gettext_noop("{asker} asks to shut {name} out of the admin."),
    ChangeKind.SUPERUSER_GRANTED: gettext_noop("{asker} asks to make a superuser of {name}."),
    ChangeKind.SUPERUSER_REVOKED: gettext_noop(
        "{asker} asks to take the rights of a superuser from {name}."
    ),
    ChangeKind.PERMISSIONS_CHANGED: gettext_noop(
        "{asker} asks to change the permissions in the admin of {name}."
    ),
    ChangeKind.ACCESS_RESET: gettext_noop(
        "{asker} asks to end every way in which {name} signs in, and to make a new link."
    ),
    ChangeKind.SIGNING_KEY_ENROLLED: gettext_noop(
        "{asker} asks to let a passkey of {name} sign decisions. Its key fingerprint is "
        "{fingerprint}."
    ),
}


MADE_ALONE: dict[str, str] = {
    ChangeKind.ROLE_GRANTED: gettext_noop(
        "{asker}, the only operator, gave the role {role} in {tenant} to {name}."
    ),
    ChangeKind.ROLE_REVOKED: gettext_noop(
        "{asker}, the only operator, took the role {role} in {tenant} from {name}."
    ),
}


def _pending(request: ChangeRequest) -> Pending:
    notes = list(_notes(request))
    return Pending(_sentence(request), notes=notes, is_overtaken=_is_overtaken(request))


def _is_overtaken(request: ChangeRequest) -> bool:
    """True for a passkey that its person let sign meanwhile."""
    key = request.after.get(passkeys.KEY, {})
    return key.get("credential") in (enrolled(person_of_request(request)) if key else ())


def _sentence(request: ChangeRequest) -> SafeString:
    asker, person = names_of([request.asked_by, request.concerns])
    role = request.after.get("role", "")
    is_made = request.state in {RequestState.ALONE, RequestState.READ}
    return format_html(
        _(MADE_ALONE[request.kind]) if is_made else _(ASKED[request.kind]),
        asker=strong(asker),
        name=strong(person),
        role=role_in_words(role),
        tenant=request.tenant,
        fingerprint=strong(_fingerprint(request)),
    )


def _told_and_signs(waits_s: int) -> str:
    if not waits_s:
        return _("They are told at once, and it signs from then on.")
    hours = waits_s // 3600
    return ngettext(
        "They are told at once. It signs {hours} hour after you confirm it.",
        "They are told at once. It signs {hours} hours after you confirm it.",
        hours,
    ).format(hours=hours)


def _fingerprint(request: ChangeRequest) -> str:
    is_key = request.kind == ChangeKind.SIGNING_KEY_ENROLLED
    return passkeys.SigningKey(**request.after[passkeys.KEY]).fingerprint if is_key else ""


RIGHTS = {
    Role.VIEWER: gettext_noop("A viewer sees everything and decides nothing."),
    Role.APPROVER: gettext_noop("A manager approves, rejects and answers what agents ask."),
    Role.OPERATOR: gettext_noop(
        "An operator keeps tools, agents and people, and settles what is in doubt."
    ),
}


def _notes(request: ChangeRequest) -> Iterator[str]:
    if request.kind in MADE_ALONE:
        yield _(RIGHTS[Role(request.after["role"])])
    for word, names in _permissions(request):
        yield f"{word}: {', '.join(names)}"
    if request.kind == ChangeKind.SIGNING_KEY_ENROLLED:
        yield _(
            "Ask the person, face to face or by telephone, which key fingerprint their account "
            "page shows. Confirm only if it is this one."
        )
        yield _told_and_signs(int(waiting_time_of(person_of_request(request)).total_seconds()))
    if maker := knows_way_in(request):
        yield _("Has come in already, by a link that %(maker)s made.") % {"maker": maker}


def _permissions(request: ChangeRequest) -> list[tuple[str, list[str]]]:
    """Every permission that confirming the change would give or take, by name."""
    if request.kind != ChangeKind.PERMISSIONS_CHANGED:
        return []
    person = person_of_request(request)
    has = set(person.user_permissions.values_list("pk", flat=True))
    wanted = set(request.after["permissions"])
    named = [
        (word, event_details({"permissions": list(keys)})["permissions"])
        for word, keys in ((_("Gives"), wanted - has), (_("Takes"), has - wanted))
    ]
    return [(word, names) for word, names in named if names]


for _kind in ASKED:
    show(_kind, _pending)
