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
from approvals.people import account_log, independence, rights, signing_keys
from approvals.people.principals import name_of, principal_of, user_of
from approvals.people.sign_in import has_way_in
from ledger import seals
from ledger.events import ChangeKind, four_eyes
from ledger.models import ChangeRequest, Event
from ledger.principals import Principal, Surface

# These rights need a second operator, whoever gets them.
ALWAYS = frozenset(
    {
        ChangeKind.STAFF_GRANTED,
        ChangeKind.SUPERUSER_GRANTED,
        ChangeKind.PERMISSIONS_CHANGED,
        ChangeKind.ACCESS_RESET,
        ChangeKind.SIGNING_KEY_ENROLLED,
    }
)
ROLES = frozenset({ChangeKind.ROLE_GRANTED, ChangeKind.ROLE_REVOKED})
# What operators of the tenant confirm; the rest is for superusers.
OF_ACCOUNT = {
    ChangeKind.ACCESS_RESET,
    ChangeKind.SIGNING_KEY_ENROLLED,
    ChangeKind.USER_ACTIVATED,
    ChangeKind.USER_DEACTIVATED,
}
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


def is_alone(kind: str, tenant: str, person: User, by: Principal, role: str) -> bool:
    """True if nobody could confirm that this person gets a role: the tenant has had one operator.

    It counts at once then, sealed as made alone, and the next operator is shown it. An operator
    who was invited and never came in is no second one; one who was let go was. Whoever would
    decide is let in so only while nobody else does. Such a role may be taken back alone until its
    person has come in.
    """
    is_given = kind == ChangeKind.ROLE_GRANTED
    is_taken_back = kind == ChangeKind.ROLE_REVOKED and not _has_come_in(person)
    if str(by) == str(principal_of(person)) or not (is_given or is_taken_back):
        return False
    if not any(row.user_id == by.user_key for row in _holding(tenant, Role.OPERATOR)):
        return False
    roles = {Role.OPERATOR, Role(role)} - {Role.VIEWER}
    return not any(_has_had_another(tenant, each, by) for each in roles)


def _holding(tenant: str, role: str) -> QuerySet[Membership]:
    return Membership.objects.filter(tenant=tenant, role=role).select_related("user")


def _has_had_another(tenant: str, role: str, by: Principal) -> bool:
    """True if somebody else who came in has the role, or it was taken from somebody."""
    others = _holding(tenant, role).exclude(user=by.user_key)
    taken = Event.objects.filter(
        kind=ChangeKind.ROLE_REVOKED, tenant=tenant, details__contains=f'"role":"{role}"'
    ).exclude(details__contains='"alone":true')
    return any(_has_come_in(row.user) for row in others) or taken.exists()


def _has_come_in(person: User) -> bool:
    """True also if every way in was reset since."""
    return person.last_login is not None or has_way_in(person)


def is_only_manager(tenant: str, by: Principal) -> bool:
    """True if nobody else ever could sign anything off in the tenant."""
    return not _has_had_another(tenant, Role.APPROVER, by)


def note_alone(
    person: User, kind: str, *, by: Principal, tenant: str, details: Mapping[str, Any]
) -> None:
    """Have the next operator of the tenant read a change that was made alone."""
    concerns = str(principal_of(person))
    subject = f"{concerns} {seals.digest_of(dict(details))[:16]}"
    four_eyes.note_alone(kind, subject, details, tenant=tenant, by=by, concerns=concerns)


def _concerns_operator(person: User, kind: str, role: str) -> bool:
    """True if it makes a person an operator, or ends that."""
    if kind in {ChangeKind.USER_DEACTIVATED, ChangeKind.USER_ACTIVATED}:
        return Membership.objects.filter(user=person, role=Role.OPERATOR).exists()
    return kind in ROLES and role == Role.OPERATOR


def may_decide(person: User) -> bool:
    """True if the person has a role in which people decide or settle."""
    return Membership.objects.filter(user=person).exclude(role=Role.VIEWER).exists()


def keeps_own_address(person: User) -> bool:
    """True if nobody else may change the address, to which a link to a new password goes.

    So it is as soon as the person has come in, or might decide once they do.
    """
    has_rights = person.is_superuser or person.is_staff or may_decide(person)
    given = four_eyes.waiting(ChangeKind.ROLE_GRANTED).filter(concerns=str(principal_of(person)))
    return has_rights or _has_come_in(person) or given.exists()


def keep_as_viewer(person: User, tenant: str, *, by: Principal, via: Surface) -> None:
    """Let whoever has lost their last role see the tenant, so that they can be given another."""
    if Membership.objects.filter(user=person).exists():
        return
    viewer, kind = Role.VIEWER.value, ChangeKind.ROLE_GRANTED
    rights.apply(person, kind, tenant, {"role": viewer})
    account_log.record_change(person, kind, by=by, via=via, tenant=tenant, role=viewer)


def ask(
    person: User, kind: str, *, by: Principal, via: Surface, tenant: str, details: Mapping[str, Any]
) -> ChangeRequest:
    """Request a change. Returns the open request if there is an equal one."""
    concerns = str(principal_of(person))
    subject = f"{concerns} {seals.digest_of(dict(details))[:16]}"
    with atomic():
        User.objects.select_for_update().get(pk=person.pk)
        origin: dict[str, Any] = {"by": by, "via": via, "tenant": tenant, "concerns": concerns}
        return four_eyes.ask(kind, subject, details, **origin)


def account_requests_of(operator: User) -> QuerySet[ChangeRequest]:
    """The requests about accounts in the tenants of this operator; all of them for a superuser."""
    return _of(operator, ChangeRequest.objects.filter(kind__in=KINDS))


def _of(operator: User, rows: QuerySet[ChangeRequest]) -> QuerySet[ChangeRequest]:
    if operator.is_superuser and operator.is_active:
        return rows
    tenants = [slug for slug, roles in roles_of(operator).items() if Role.OPERATOR in roles]
    return rows.filter(kind__in=OF_TENANT, tenant__in=tenants)


def person_of_request(request: ChangeRequest) -> User:
    """The person whose rights it changes."""
    return user_of(request.concerns)


def refusal(request: ChangeRequest, by: Principal) -> str:
    """Why this operator, who is another person by name, may not confirm it."""
    operator, person, asker = (
        user_of(str(by)),
        person_of_request(request),
        user_of(request.asked_by),
    )
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
    person = person_of_request(request)
    has_come_in = lets_decide(request) and has_way_in(person)
    return independence.maker_of_link(person) if has_come_in else ""


def may_make_link(operator: User, request: ChangeRequest) -> bool:
    """True if this operator, who confirmed the role, may make the link of its person.

    Two operators are behind it then, and the account opens nothing that this one does not keep.
    """
    person = person_of_request(request)
    is_theirs = person.is_active and not _is_of_others(person, operator)
    return is_theirs and lets_decide(request) and not has_way_in(person)


def words_for_new_role(person: User) -> str:
    """Directions for whoever gave a role in which people decide: to a new link, or to be careful
    where somebody else made the link by which the person came in."""
    if has_way_in(person):
        maker = independence.maker_of_link(person)
        return maker and _(
            "%(person)s came in by a link that %(maker)s made, and who may know the way in: ask "
            "the person themself."
        ) % {"person": name_of(person), "maker": maker}
    return _(
        "Earlier links into the account of %(person)s have ended: whoever made one could have "
        "decided with it. Make a new one on the page People; it takes two operators."
    ) % {"person": name_of(person)}


def _is_of_others(person: User, operator: User) -> bool:
    """True if the account opens more than this operator keeps."""
    kept = [slug for slug, roles in roles_of(operator).items() if Role.OPERATOR in roles]
    elsewhere = Membership.objects.filter(user=person).exclude(tenant__in=kept)
    return not operator.is_superuser and (person.is_superuser or bool(elsewhere.exists()))


# --- as the four-eyes rule calls it ---------------------------------------------------------------


def _apply(request: ChangeRequest, by: Principal, via: Surface) -> None:
    person = User.objects.select_for_update().get(pk=person_of_request(request).pk)
    if request.kind == ChangeKind.SIGNING_KEY_ENROLLED:
        signing_keys.enrol_for(person, {**request.after, **request.asker}, by, via)
        return
    change = (request.kind, request.tenant, request.after)
    if not rights.is_in_effect(person, *change):
        rights.apply(person, *change)
        _record(request, request.kind, by, via, **request.asker)
        if request.kind == ChangeKind.ROLE_REVOKED:
            keep_as_viewer(person, request.tenant, by=by, via=via)


def _record(request: ChangeRequest, kind: str, by: Principal, via: Surface, **details: Any) -> None:
    details |= rights.event_details(request.after)
    if kind != request.kind:  # it is asked for, or declined
        details["change"] = request.kind
    account_log.record_change(
        person_of_request(request), kind, by=by, via=via, tenant=request.tenant, **details
    )


def register() -> None:
    kind = four_eyes.Kind(*EVENTS, _record, _apply, refusal, ChangeKind.ALONE_READ)
    four_eyes.register(kind, *KINDS)
    four_eyes.register_check(independence.check_second_operator)
