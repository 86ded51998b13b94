"""The four-eyes rule for rights: some changes count only when a second operator confirms them.

A requested change is a row. Confirming it is a compare-and-set on that row; the change and its
sealed event are in the same database transaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import User
from django.db.models import Q, QuerySet
from django.db.models.functions import Now
from django.db.transaction import atomic
from django.utils.translation import gettext as _

from approvals.http.middleware import roles_of
from approvals.models import Membership, PendingChange, PendingState, Role
from approvals.people import independence, rights, ways_in
from approvals.people.principals import name_of, principal_of
from ledger.errors import NotAllowed, NotFound, NotPossible
from ledger.events.account_changes import ChangeKind
from ledger.principals import Principal, Surface

VALID = timedelta(days=3)
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


def has_to_confirm(person: User, kind: str, by: Principal, role: str = "") -> bool:
    """Whether the change needs a second operator.

    Commands on the server never do: they create the first operator. Giving an approver or operator
    role to an account that the giver could sign in to counts as giving it to oneself. Operators are
    made, and let go, by two.
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
    """Whether it makes an operator, or lets one go."""
    if kind in {ChangeKind.USER_DEACTIVATED, ChangeKind.USER_ACTIVATED}:
        return Membership.objects.filter(user=person, role=Role.OPERATOR).exists()
    return kind in ROLES and role == Role.OPERATOR


def may_decide(person: User) -> bool:
    """Whether the person has a role in which people decide or settle."""
    return Membership.objects.filter(user=person).exclude(role=Role.VIEWER).exists()


def ask(
    person: User, kind: str, *, by: Principal, via: Surface, tenant: str, details: Mapping[str, Any]
) -> PendingChange:
    """Request a change. Returns the open request if there is an equal one."""
    with atomic():
        request = {"user": person, "kind": kind, "tenant": tenant, "details": dict(details)}
        waiting = open_changes().filter(**request).first()
        if waiting is not None:
            return waiting
        row = PendingChange.objects.create(
            **request, asked_by_id=int(by.id), expires_at=Now() + VALID
        )
        rights.record(
            person,
            ChangeKind.CHANGE_REQUESTED,
            by=by,
            via=via,
            tenant=tenant,
            change=kind,
            **rights.event_details(dict(details)),
        )
    return row


def open_changes() -> QuerySet[PendingChange]:
    """The requests that are neither settled nor expired."""
    return PendingChange.objects.filter(state=PendingState.WAITING, expires_at__gt=Now())


def visible_to(operator: User) -> QuerySet[PendingChange]:
    """The open requests in the tenants of this operator; all of them for a superuser."""
    rows = open_changes().select_related("user", "asked_by")
    if operator.is_superuser and operator.is_active:
        return rows
    tenants = [slug for slug, roles in roles_of(operator).items() if Role.OPERATOR in roles]
    return rows.filter(kind__in=OF_TENANT, tenant__in=tenants)


def refusal(operator: User, row: PendingChange) -> str:
    """Why this operator may not confirm it; empty if they may."""
    if operator.pk == row.asked_by_id:
        return _("You asked for it: another operator has to confirm it.")
    if operator.pk == row.user_id:
        return _("It is about yourself: another operator has to confirm it.")
    if row.kind in OF_ACCOUNT and _is_of_others(row.user, operator):
        return _("The person has come to another tenant meanwhile, or is a superuser.")
    if not row.asked_by.is_active:
        return _("Whoever asked for it has no account any more.")
    if independence.may_be_same_person(operator, row.asked_by) or independence.could_sign_in_as(
        str(principal_of(row.user)), operator
    ):
        return _(
            "Somebody could sign in both as you and as a person whom this change concerns: one "
            "opened the account of the other, or set its password, less than {days} days ago, "
            "or a third person did so for both."
        ).format(days=independence.WINDOW.days)
    return ""


def lets_decide(row: PendingChange) -> bool:
    """Whether confirming it gives a role in which people decide or settle."""
    return bool(row.kind == ChangeKind.ROLE_GRANTED and row.details["role"] != Role.VIEWER)


def knows_way_in(row: PendingChange) -> str:
    """Who made the link by which the person of this role came in, as far as that is known."""
    has_come_in = lets_decide(row) and ways_in.are_left(row.user)
    return independence.maker_of_link(row.user) if has_come_in else ""


def may_make_link(operator: User, row: PendingChange) -> bool:
    """Whether this operator, who confirmed the role, may make the link of its person.

    Two operators are behind it then, and the account opens nothing that this one does not keep.
    """
    is_theirs = row.user.is_active and not _is_of_others(row.user, operator)
    return is_theirs and lets_decide(row) and not ways_in.are_left(row.user)


def words_of_ended_link(person: User) -> str:
    """Where a new link comes from, for who was given a role; empty if they have come in."""
    if ways_in.are_left(person):
        return ""
    return _(
        "Earlier links into the account of %(person)s have ended: whoever made one could have "
        "decided with it. Make a new one on the page People; it takes two operators."
    ) % {"person": name_of(person)}


def _is_of_others(person: User, operator: User) -> bool:
    """Whether the account opens more than this operator keeps."""
    kept = [slug for slug, roles in roles_of(operator).items() if Role.OPERATOR in roles]
    elsewhere = Membership.objects.filter(user=person).exclude(tenant__in=kept)
    return not operator.is_superuser and (person.is_superuser or bool(elsewhere.exists()))


def confirm(change_id: int, *, by: User, via: Surface) -> PendingChange:
    """Confirm a request, which makes the change. Raises ``NotFound, NotAllowed, NotPossible``."""
    row = _row(change_id, by)
    if reason := refusal(by, row):
        raise NotAllowed(reason, hint=_("Nothing was changed."))
    with atomic():
        _end(row, PendingState.CONFIRMED, by)
        User.objects.select_for_update().get(pk=row.user_id)
        if not rights.is_in_effect(row.user, row.kind, row.tenant, row.details):
            rights.apply(row.user, row.kind, row.tenant, row.details)
            asked_by, asked_by_name = str(principal_of(row.asked_by)), name_of(row.asked_by)
            _record(row, row.kind, by, via, asked_by=asked_by, asked_by_name=asked_by_name)
    return row


def decline(change_id: int, *, by: User, via: Surface) -> PendingChange:
    """Decline a request, or withdraw one's own. Raises ``NotFound, NotPossible``."""
    row = _row(change_id, by)
    with atomic():
        _end(row, PendingState.DECLINED, by)
        _record(row, ChangeKind.CHANGE_DECLINED, by, via, change=row.kind)
    return row


def _record(row: PendingChange, kind: str, by: User, via: Surface, **more: Any) -> None:
    rights.record(
        row.user,
        kind,
        by=principal_of(by),
        via=via,
        tenant=row.tenant,
        **more,
        **rights.event_details(row.details),
    )


def _row(change_id: int, by: User) -> PendingChange:
    row = visible_to(by).filter(pk=change_id).first()
    if row is None:
        if PendingChange.objects.filter(pk=change_id, ended_by=by).exists():
            raise NotPossible(_("You have settled it already."), hint=_("Nothing was changed."))
        raise NotFound(_("No such change waits: it was settled, or its time was up."))
    return row


def _end(row: PendingChange, state: PendingState, by: User) -> None:
    still_open = open_changes().filter(pk=row.pk)
    if state == PendingState.CONFIRMED:
        still_open = still_open.filter(~Q(asked_by=by), ~Q(user=by))
    if not still_open.update(state=state, ended_by=by, ended_at=Now()):
        raise NotPossible(
            _("Another operator has settled it already, or its time is over."),
            hint=_("Nothing was changed."),
        )
