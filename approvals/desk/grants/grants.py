"""Grants at the desk: who may give, use and end signatures in advance, and what they signed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from functools import partial
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.db.models import Count, F, Max, QuerySet, Sum
from django.db.transaction import atomic
from django.utils import timezone
from django.utils.translation import gettext as _, ngettext, pgettext

from approvals.desk import decisions, policies, seats, strength
from approvals.desk.policies import YES, May
from approvals.http.middleware import Roles, roles_of
from approvals.models import Role
from approvals.people import principal_of, require_another_person, user_of
from approvals.presentation import amount_in_short, full_display, number_written
from ledger.errors import InvalidRequest, NotAllowed, Sentence
from ledger.foundation.postgres import database_now
from ledger.models import Decision, Grant, Transaction, TransactionRow, Verdict
from ledger.principals import Principal, Surface
from ledger.sign_off import grants, groups
from ledger.sign_off.rules import TIMES, Budget, Per, filled_seats, period_of
from ledger.states import State
from ledger.transactions import keepers_of

SIGNERS = frozenset({Role.APPROVER, Role.OPERATOR})
ALLOWED_STATES = frozenset(
    {State.PREPARED, State.APPROVED, State.COMMITTING, State.HANDED_OVER, State.COMMITTED}
)


def can_be_allowed(row: Transaction) -> May:
    """Yes, or why nobody signs in advance for what is like it."""
    if row.state not in ALLOWED_STATES or row.content_erased_at is not None:
        return May(False, _("Only what waits, or was approved, can be allowed from here on."))
    if not Principal.parse(row.proposed_by).is_agent:
        return May(False, _("A person proposed it; only agents are signed for in advance."))
    if not grants.may_be_granted(row.risk_level, row.consequence_level):
        return May(False, _("What is critical or cannot be undone is not signed in advance."))
    if row.evidence:
        return May(False, _("It has evidence: somebody has to look at that each time."))
    if policies.asks_for_note(row):
        return May(False, _("The rules ask for a note each time."))
    return YES


def may_allow(row: Transaction, principal: str, roles: Roles, now: datetime) -> May:
    """Yes, or why this person may not sign in advance: who could not sign this one by hand."""
    if not (may := can_be_allowed(row)):
        return may
    if row.state == State.PREPARED:
        return policies.may_decide(row, principal, roles, now)
    if Role.APPROVER not in roles.get(row.tenant, frozenset()):
        return May(
            False,
            _("Only a manager of {tenant} may decide. {who}").format(
                tenant=row.tenant, who=policies.who_can(row.tenant)
            ),
        )
    if principal in policies.barred_keepers_of(row):
        return May(False, _("You keep the agent that proposed it; somebody else has to approve."))
    if not _filled_by(row, principal):
        return May(False, _("Others sign what is like it: your signature fills no seat."))
    return YES


def allow(
    user: User,
    transaction_id: UUID,
    wanted: grants.Wanted,
    *,
    typed: str = "",
    digest: str,
    shown: str,
    credential: str = "",
    nonce: str = "",
    in_advance: tuple[str, str] = ("", ""),
) -> Grant:
    """Sign in advance what is like this transaction, and it too where it waits: both or neither.

    Of one transaction a person gives one grant: the same once more is returned, another one refused
    while the first stands. ``digest``, ``shown``, ``credential`` and ``nonce`` as for
    ``decisions.approve``; ``in_advance`` is credential and nonce of the grant's own signature.

    Raises ``NotFound, NotAllowed, InvalidRequest`` and what ``decisions.approve`` raises.
    """
    row, roles = decisions.row_and_roles(user, transaction_id)
    by, signs = principal_of(user), policies.asks_to_sign(row)
    types = not signs and decisions.has_to_type(user, row, Surface.WEB)
    if row.intent_digest != digest or full_display.seconds_shown(row, user, shown) is None:
        raise full_display.NotShownInFull(_("It was not shown in full."))
    with atomic():
        if row.state == State.PREPARED or not can_be_allowed(row):
            decisions.approve(
                user,
                transaction_id,
                via=Surface.WEB,
                typed=typed,
                digest=digest,
                shown=shown,
                credential=credential,
                nonce=nonce,
            )
            may = can_be_allowed(row)
        else:
            may = may_allow(row, str(by), roles, timezone.now())
            keepers = policies.barred_keepers_of(row)
            require_another_person(user, keepers, _("{name} keeps the agent that proposed it."))
            if types and not strength.is_confirmed(typed, row):
                raise InvalidRequest(decisions.why_to_type(row))
        if not may:
            raise NotAllowed(may.why_not)
        wanted = replace(wanted, typed=types)
        if not signs:
            return grants.give(wanted, by=by, via=Surface.WEB)
        about = strength.about(row, grants.VERDICT)
        assertion, (until,) = strength.answer_to(user, about, *in_advance)
        ends_at = datetime.fromisoformat(until)
        return grants.give_signed(wanted, ends_at, assertion, by=by, via=Surface.WEB)


def sign(user: User, row: Transaction, wanted: grants.Wanted, *, shown: str) -> dict[str, Any]:
    """Options for the browser to sign for ``allow``, one touch after the other: ``{"approve": …,
    "grant": …}``, each as ``strength.options_for`` has it; the first only where this one waits.

    The grant ends at the time that is signed. Raises ``NotFound, NotAllowed, NotShownInFull``.
    """
    may = may_allow(row, str(principal_of(user)), roles_of(user), timezone.now())
    if not may:
        raise NotAllowed(may.why_not)
    waits = row.state == State.PREPARED
    options = {"approve": decisions.sign(user, row.pk, shown=shown)} if waits else {}
    until = database_now() + wanted.lasts
    grant = Grant(**wanted.columns(), given_by=str(principal_of(user)), ends_at=until)
    about = [*strength.about(row, grants.VERDICT), until.isoformat()]
    return options | {
        "grant": strength.options_for(user, about, partial(grants.statement_of_grant, grant))
    }


def not_filled_by(row: Transaction, principal: str) -> str:
    """The signatures that are asked for each time beside this person's; empty if none are."""
    missing = row.quorum - _filled_by(row, principal)
    if missing <= 0:
        return ""
    return ngettext(
        "It is one signature of those that are needed: one more person is asked each time.",
        "It is one signature of those that are needed: {number} more people are asked each time.",
        missing,
    ).format(number=missing)


def _filled_by(row: Transaction, principal: str) -> int:
    terms = seats.terms_of(row)
    own = frozenset(groups.groups_of(row.tenant, principal))
    return filled_seats(terms, [own]) if terms.groups else 1


def without_room(row: Transaction) -> str:
    """Of what waits although somebody signed for it in advance: why."""
    if row.state != State.PREPARED:
        return ""
    return " ".join(
        _("{name}'s signature in advance covers it, and too little of it is left.").format(
            name=grant.given_by_name
        )
        for grant in grants.without_room(row)
    )


def check_signer(grant: Grant, principal: str, row: Transaction | TransactionRow) -> None:
    """Raises ``NotAllowed`` where this person could not sign it by hand now.

    Break-glass is signed by operators, any other grant by managers. Who could be the same person as
    an earlier voter, or as a keeper of the agent, does not sign.
    """
    person = user_of(principal)
    role = Role.OPERATOR if grant.is_break_glass else Role.APPROVER
    if not person.is_active or role not in roles_of(person).get(row.tenant, frozenset()):
        raise NotAllowed(Sentence("Whoever signed in advance may not decide any more."))
    earlier = Decision.objects.filter(transaction=row.id, verdict=Verdict.APPROVE)
    others = [given.kept_by or given.principal for given in earlier]
    keepers = () if row.keeper_may_sign else keepers_of(row.proposed_by, row.created_at)
    require_another_person(person, [*others, *keepers], _("{name} has a part in it."))


def broken_glass(tenants: Collection[str]) -> list[Grant]:
    """The emergencies that last in these tenants."""
    rows = Grant.objects.live().filter(tenant__in=tenants, is_break_glass=True)
    return list(rows.order_by("pk"))


# --- what they signed -----------------------------------------------------------------------------


@dataclass(slots=True)
class Signed:
    """The number that a grant has signed, their sums by currency, and when the last one."""

    number: int = 0
    sums: dict[str, Decimal] = field(default_factory=dict)
    last: datetime | None = None

    @property
    def words(self) -> str:
        """``7, €310``."""
        sums = [amount_in_short(amount, currency) for currency, amount in self.sums.items()]
        return ", ".join([number_written(self.number), *sums])


def uses_of(given: Iterable[Grant]) -> QuerySet[Decision]:
    """The approvals by these grants, the newest first: one of each transaction."""
    rows = Decision.objects.filter(grant__in=given, principal=F("grant__given_by"))
    return rows.select_related("transaction").order_by("-pk")


def signed_by(given: Iterable[Grant]) -> dict[int, Signed]:
    """The sums and numbers of these grants, by their keys."""
    signed = {grant.pk: Signed() for grant in given}
    rows = uses_of(given).order_by().values_list("grant", "transaction__currency")
    for key, currency, number, amount, last in rows.annotate(
        Count("pk"), Sum("transaction__amount"), Max("at")
    ):
        by_it = signed[key]
        by_it.number += number
        by_it.last = max(filter(None, [by_it.last, last]))
        if amount is not None:
            by_it.sums[currency] = amount
    return signed


@dataclass(frozen=True, slots=True)
class Bar:
    """A budget in its present day, month or in all, and the part of it that is used."""

    budget: Budget
    used: Decimal

    @property
    def percent(self) -> int:
        return min(100, int(100 * self.used / self.budget.limit))

    @property
    def words(self) -> str:
        """``€310 of €500 today``, ``4 of 10 times``."""
        used, most = self._written(self.used), self._written(self.budget.limit)
        words = pgettext("money", "{used} of {most}")
        if self.budget.measure == TIMES:
            words = _("{used} of {most} times")
        return " ".join(filter(None, [words.format(used=used, most=most), self._when()]))

    @property
    def is_full(self) -> bool:
        return self.used >= self.budget.limit

    @property
    def over(self) -> str:
        """The part that is beyond its limit, if any."""
        beyond = self.used - self.budget.limit
        return self._written(beyond) if beyond > 0 else ""

    def _written(self, number: Decimal) -> str:
        if self.budget.measure == TIMES:
            return number_written(number.normalize())
        return amount_in_short(number, self.budget.measure)

    def _when(self) -> str:
        return {Per.DAY: _("today"), Per.MONTH: _("this month")}.get(self.budget.per, "")


def bars_of(tenant: str, owned: Mapping[str, Iterable[Budget]]) -> dict[str, list[Bar]]:
    """The bars of these budgets of one tenant, by their owner: a grant or a rule."""
    zone, now = grants.clock_of(tenant)
    used = grants.used_of(tenant, owned)

    def bar_of(owner: str, budget: Budget) -> Bar:
        key = (owner, budget.measure, period_of(budget.per, now, zone))
        return Bar(budget, used.get(key, Decimal()))

    return {owner: [bar_of(owner, each) for each in budgets] for owner, budgets in owned.items()}
