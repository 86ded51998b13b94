"""Viewer of the inbox, and the rows that are for them to decide, settle or answer.

The same conditions as in ``policies``, in SQL: what a row is to the viewer orders and groups the
list, and is counted in the badge of every page.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import (
    BooleanField,
    Case,
    Exists,
    F,
    Func,
    IntegerField,
    OuterRef,
    Q,
    Value,
    When,
)
from django.db.models.functions import Now

from a2a.models import QuestionQuerySet
from a2a.models.answerers import CLIENT
from approvals.http.middleware import Roles
from approvals.models import Role
from ledger.contracts import ConsequenceLevel, RiskLevel
from ledger.models import Decision, GroupMember, TransactionQuerySet, Verdict, not_stopped
from ledger.models.agents import principals_kept_by
from ledger.states import State

# What cannot be undone, or does great harm if it is wrong.
GRAVE = Q(consequence_level=ConsequenceLevel.IRREVERSIBLE) | Q(risk_level=RiskLevel.CRITICAL)
# The places of rows on the list: what is broken, what expires soon, what is grave, and the rest;
# then what others have to decide, and what only operators can settle.
BROKEN, SOON_FOR_ME, GRAVE_FOR_ME, FOR_ME, GRAVE_FOR_OTHERS, FOR_OTHERS, FOR_OPERATORS = range(7)
MINE = frozenset({BROKEN, SOON_FOR_ME, GRAVE_FOR_ME, FOR_ME})
SOON = timedelta(minutes=2)  # static/js/list.js moves a row up when its time has come


_SOON = Q(expires_at__lte=Now() + SOON)


@dataclass(frozen=True, slots=True)
class Viewer:
    """A person who looks at the list: their roles, and the tenants whose rows they see."""

    principal: str
    roles: Roles
    tenants: frozenset[str]

    def with_role(self, role: str) -> list[str]:
        """The tenants in which the person has this role."""
        return sorted(tenant for tenant, names in self.roles.items() if role in names)

    @property
    def is_operator(self) -> bool:
        return bool(self.with_role(Role.OPERATOR))


def ranked(rows: TransactionQuerySet, viewer: Viewer) -> TransactionQuerySet:
    """The rows with ``rank``, their place among these seven: see ``BROKEN`` and the others."""
    pending = Q(state=State.PREPARED)
    rank = Case(
        When(~pending & can_settle(viewer), then=Value(BROKEN)),
        When(~pending, then=Value(FOR_OPERATORS)),
        When(
            can_decide(viewer),
            then=Case(
                When(_SOON, then=Value(SOON_FOR_ME)),
                When(GRAVE, then=Value(GRAVE_FOR_ME)),
                default=Value(FOR_ME),
            ),
        ),
        When(GRAVE, then=Value(GRAVE_FOR_OTHERS)),
        default=Value(FOR_OTHERS),
        output_field=IntegerField(),
    )
    return rows.annotate(rank=rank)


def ranked_questions(rows: QuestionQuerySet, viewer: Viewer) -> QuestionQuerySet:
    for_viewer = Case(When(_SOON, then=Value(SOON_FOR_ME)), default=Value(FOR_ME))
    answerable = When(can_answer(viewer), then=for_viewer)
    rank = Case(answerable, default=Value(FOR_OTHERS), output_field=IntegerField())
    return rows.annotate(rank=rank)


def can_decide(viewer: Viewer) -> Q:
    """As ``policies.may_decide``."""
    given = Decision.objects.filter(transaction=OuterRef("pk"))
    kept = given.filter(kept_by=viewer.principal, verdict=Verdict.APPROVE)
    counts = Exists(kept) & ~Exists(given.filter(verdict=Verdict.PASS_ON))
    return (
        Q(
            state=State.PREPARED,
            expires_at__gt=Now(),
            tenant__in=viewer.with_role(Role.APPROVER),
        )
        & not_stopped()
        & ~Q(proposed_by=viewer.principal)
        & ~_kept(viewer)
        & ~Exists(given.filter(principal=viewer.principal))
        & ~counts
        & ~Q(terms__contains={"deny": True})
        & _has_a_seat_for(viewer)
    )


class _CanFillASeat(Func):
    """As ``seats.can_fill``."""

    function = "ledger_can_fill_a_seat"
    output_field = BooleanField()


def _has_a_seat_for(viewer: Viewer) -> Q:
    own = GroupMember.objects.live().filter(
        group__tenant=OuterRef("tenant"), person=viewer.principal
    )
    columns = ("open_seats", "terms", "tenant", "proposed_by", "tool", "created_at")
    names = ArraySubquery(own.values("group__name"))
    return Q(open_seats=None) | Q(_CanFillASeat(names, *map(F, columns)))


def can_settle(viewer: Viewer) -> Q:
    """As ``policies.may_operate``; who proposed a settlement waits for another operator."""
    tenants = viewer.with_role(Role.OPERATOR)
    own = Q(settlement__isnull=False, settlement__by=viewer.principal)
    return Q(tenant__in=tenants) & ~Q(proposed_by=viewer.principal) & ~_kept(viewer) & ~own


def _kept(viewer: Viewer) -> Q:
    """As ``policies.barred_keepers_of``."""
    return Q(keeper_may_sign=False, proposed_by__in=principals_kept_by(Value(viewer.principal)))


def can_answer(viewer: Viewer) -> Q:
    """As ``policies.may_answer``."""
    approver, operator = viewer.with_role(Role.APPROVER), viewer.with_role(Role.OPERATOR)
    either = sorted({*approver, *operator})
    is_named = (
        Q(tenant__in=approver, may_answer__contains=[Role.APPROVER])
        | Q(tenant__in=operator, may_answer__contains=[Role.OPERATOR])
        | Q(tenant__in=either, may_answer__contains=[viewer.principal])
        | Q(
            tenant__in=either,
            may_answer__contains=[CLIENT],
            task__submitted_by=viewer.principal,
        )
    )
    return Q(expires_at__gt=Now()) & is_named
