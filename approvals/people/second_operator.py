"""The four-eyes rule for rights: some changes count only when a second operator confirms them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.db.transaction import atomic
from django.utils.translation import gettext as _

from approvals.http.middleware import roles_of
from approvals.models import Membership, Role
from approvals.people import account_access, independence, rights
from approvals.people.principals import name_of, principal_of, user_of
from ledger import four_eyes
from ledger.errors import NotFound
from ledger.events.account_changes import ChangeKind
from ledger.models import ChangeRequest
from ledger.principals import Principal, Surface
from ledger.seals import intents

# These rights need a second operator, whoever gets them.
ALWAYS = frozenset(
    {
        ChangeKind.STAFF_GRANTED,
        ChangeKind.SUPERUSER_GRANTED,
        ChangeKind.PERMISSIONS_CHANGED,
        ChangeKind.ACCESS_RESET,
    }
)
ROLES = frozenset({ChangeKind.ROLE_GRANTED, ChangeKind.ROLE_REVOKED})
# What operators of the tenant confirm; the rest is for superusers.
OF_ACCOUNT = {ChangeKind.ACCESS_RESET, ChangeKind.USER_ACTIVATED, ChangeKind.USER_DEACTIVATED}
OF_TENANT = ROLES | OF_ACCOUNT
EVENTS = (ChangeKind.CHANGE_REQUESTED, ChangeKind.CHANGE_DECLINED)
KINDS = sorted(ALWAYS | OF_TENANT | {ChangeKind.STAFF_REVOKED, ChangeKind.SUPERUSER_REVOKED})


def has_to_confirm(person: User, kind: str, by: Principal, role: str = "") -> bool:
    """True if the change needs a second operator.

    Commands on the server never do: they create the first operator. Giving an approver or operator
    role to an account that the giver could sign in to counts as giving it to oneself. Making
    an operator, and ending being one, takes two.
    """
    if by.is_system:
        return False
    is_own = str(by) == str(principal_of(person))
    decides = (kind == ChangeKind.ROLE_GRANTED and role != Role.VIEWER) or (
        kind == ChangeKind.USER_ACTIVATED and may_decide(person)
    )
    return (
        kind in ALWAYS
        or is_own
        or _concerns_operator(person, kind, role)
        or (decides and independence.could_sign_in_as(str(by), person))
    )


def _concerns_operator(person: User, kind: str, role: str) -> bool:
    """True if it makes a person an operator, or ends that."""
    if kind in {ChangeKind.USER_DEACTIVATED, ChangeKind.USER_ACTIVATED}:
        return Membership.objects.filter(user=person, role=Role.OPERATOR).exists()
    return kind in ROLES and role == Role.OPERATOR


def may_decide(person: User) -> bool:
    """True if the person has a role in which people decide or settle."""
    return Membership.objects.filter(user=person).exclude(role=Role.VIEWER).exists()


def ask(
    person: User, kind: str, *, by: Principal, via: Surface, tenant: str, details: Mapping[str, Any]
) -> ChangeRequest:
    """Request a change. Returns the open request if there is an equal one."""
    concerns = str(principal_of(person))
    subject = f"{concerns} {intents.digest_of(dict(details))[:16]}"
    with atomic():
        User.objects.select_for_update().get(pk=person.pk)
        origin: dict[str, Any] = {"by": by, "via": via, "tenant": tenant, "concerns": concerns}
        return four_eyes.ask(kind, subject, details, **origin)


def visible_to(operator: User) -> QuerySet[ChangeRequest]:
    """The open requests in the tenants of this operator; all of them for a superuser."""
    return _of(operator, four_eyes.waiting(*KINDS))


def _of(operator: User, rows: QuerySet[ChangeRequest]) -> QuerySet[ChangeRequest]:
    if operator.is_superuser and operator.is_active:
        return rows
    tenants = [slug for slug, roles in roles_of(operator).items() if Role.OPERATOR in roles]
    return rows.filter(kind__in=OF_TENANT, tenant__in=tenants)


def person_of(request: ChangeRequest) -> User:
    """The person whose rights it changes."""
    return user_of(request.concerns)


def refusal(request: ChangeRequest, by: Principal) -> str:
    """Why this operator, who is another person by name, may not confirm it."""
    operator, person, asker = user_of(str(by)), person_of(request), user_of(request.asked_by)
    if request.kind in OF_ACCOUNT and _is_of_others(person, operator):
        return _("The person has come to another tenant meanwhile, or is a superuser.")
    if not asker.is_active:
        return _("Whoever asked for it has no account any more.")
    if independence.may_be_same_person(operator, asker) or independence.could_sign_in_as(
        request.concerns, operator
    ):
        return _(
            "Somebody could sign in both as you and as a person whom this change concerns: one "
            "opened the account of the other, or set its password, less than {days} days ago, "
            "or a third person did so for both."
        ).format(days=independence.WINDOW.days)
    return ""


def lets_decide(request: ChangeRequest) -> bool:
    """True if confirming it gives a role in which people decide or settle."""
    return bool(request.kind == ChangeKind.ROLE_GRANTED and request.after["role"] != Role.VIEWER)


def knows_way_in(request: ChangeRequest) -> str:
    """The maker of the link by which the person of this role came in, as far as it is known."""
    person = person_of(request)
    has_come_in = lets_decide(request) and account_access.is_left(person)
    return independence.maker_of_link(person) if has_come_in else ""


def may_make_link(operator: User, request: ChangeRequest) -> bool:
    """True if this operator, who confirmed the role, may make the link of its person.

    Two operators are behind it then, and the account opens nothing that this one does not keep.
    """
    person = person_of(request)
    is_theirs = person.is_active and not _is_of_others(person, operator)
    return is_theirs and lets_decide(request) and not account_access.is_left(person)


def words_of_ended_link(person: User) -> str:
    """Directions to a new link, for who was given a role; empty if they have come in."""
    if account_access.is_left(person):
        return ""
    return _(
        "Earlier links into the account of %(person)s have ended: whoever made one could have "
        "decided with it. Make a new one on the page People; it takes two operators."
    ) % {"person": name_of(person)}


def _is_of_others(person: User, operator: User) -> bool:
    """True if the account opens more than this operator keeps."""
    kept = [slug for slug, roles in roles_of(operator).items() if Role.OPERATOR in roles]
    elsewhere = Membership.objects.filter(user=person).exclude(tenant__in=kept)
    return not operator.is_superuser and (person.is_superuser or bool(elsewhere.exists()))


def confirm(change_id: int, *, by: User, via: Surface) -> ChangeRequest:
    """Confirm a request, which makes the change. Raises ``NotFound, NotAllowed, NotPossible``."""
    request = _request(change_id, by)
    four_eyes.confirm(request, seen=request.sha256, by=principal_of(by), via=via)
    return request


def decline(change_id: int, *, by: User, via: Surface) -> ChangeRequest:
    """Decline a request, or withdraw one's own. Raises ``NotFound, NotPossible``."""
    request = _request(change_id, by)
    four_eyes.decline(request, by=principal_of(by), via=via)
    return request


def _request(change_id: int, by: User) -> ChangeRequest:
    request = _of(by, ChangeRequest.objects.filter(kind__in=KINDS)).filter(pk=change_id).first()
    if request is None:
        raise NotFound(four_eyes.NO_SUCH_CHANGE)
    return request


# --- as the four-eyes rule calls it ---------------------------------------------------------------


def _apply(request: ChangeRequest, by: Principal, via: Surface) -> None:
    person = User.objects.select_for_update().get(pk=person_of(request).pk)
    change = (request.kind, request.tenant, request.after)
    if not rights.is_in_effect(person, *change):
        rights.apply(person, *change)
        _record(request, request.kind, by, via, **request.asker)


def _record(request: ChangeRequest, kind: str, by: Principal, via: Surface, **details: Any) -> None:
    details |= rights.event_details(request.after)
    if kind != request.kind:  # it is asked for, or declined
        details["change"] = request.kind
    rights.record(person_of(request), kind, by=by, via=via, tenant=request.tenant, **details)


def register() -> None:
    four_eyes.register(four_eyes.Kind(*EVENTS, _record, _apply, refusal), *KINDS)
    four_eyes.register_check(independence.check_second_operator)
