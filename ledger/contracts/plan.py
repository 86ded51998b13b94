"""Values that a tool's functions are given (``Context``) and that ``plan`` returns (``Plan``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from babel.numbers import get_currency_precision, list_currencies

from ledger.contracts.arguments import SUMMARY_MAX
from ledger.contracts.contract import RiskLevel
from ledger.contracts.evidence import Evidence, seal
from ledger.errors import InvalidRequest

LONGEST_PAUSE = timedelta(minutes=5)  # between two questions
CURRENCIES = frozenset(list_currencies())  # ISO 4217, the withdrawn ones included
AMOUNT_MAX = Decimal(10) ** 14


class NothingHappened(Exception):
    """Raised by a tool that can prove that it had no effect: the transaction fails for good.

    From ``plan``: the plan is refused. From the function itself: what ``plan`` held is rolled
    back. From ``find_receipt``: proof that the execution in doubt had no effect. The text reaches
    the agent and the desk. Any other exception of the function means *unknown*.
    """


class MayHaveHappened(Exception):
    """Raised by a tool that does not know whether it had an effect: the transaction is in doubt.

    The text reaches the agent and the desk, as the tool's own words. Of any other exception they
    get the name and a number: what it says may hold secrets.
    """


class NotDoneYet(MayHaveHappened):
    """Raised by a tool that has accepted the operation and does it later.

    Until its contract's ``timeout`` is over, ``find_receipt`` is asked what became of it, the first
    time after ``after``; it may raise this again. Without ``find_receipt`` it is in doubt.
    """

    def __init__(
        self,
        text: str = "It accepted the operation, and has not done it yet.",
        *,
        after: timedelta = timedelta(seconds=1),
    ) -> None:
        super().__init__(text)
        self.after = max(min(after, LONGEST_PAUSE), timedelta(0))


class NothingHappenedYet(NothingHappened):
    """As ``NothingHappened``, but the same call may succeed later: a service that is not there."""


@dataclass(frozen=True, slots=True)
class Context:
    """Facts that a tool's function may know about its transaction.

    ``attempt`` counts executions, from 1. ``held`` is what ``plan`` returned as held; ``receipt``
    and ``result`` are those of the execution, for ``compensate``. After ``lease_until`` another
    worker may have begun: whoever receives the call begins nothing later than that.
    """

    transaction_id: UUID
    tenant: str
    operation_key: str
    timeout: timedelta
    held: Mapping[str, Any] = field(default_factory=dict)
    receipt: str = ""
    result: Mapping[str, Any] = field(default_factory=dict)
    attempt: int = 1
    lease_until: datetime | None = None  # none for ``plan`` and ``find_receipt``


@dataclass(frozen=True, slots=True)
class Plan:
    """Findings of ``plan``, for the approver to see.

    ``amount`` in major units of ``currency`` (ISO 4217). ``arguments`` replaces the proposed
    ones, where planning corrected them. ``held`` is handed to the function and to ``rollback``;
    a hold must lapse by itself at ``hold_expires_at``. ``evidence`` is shown beside it.
    ``risk_level`` is that of this call; below the one of its contract it does not go.
    """

    summary: str
    warnings: tuple[str, ...] | list[str] = ()
    amount: Decimal | None = None
    currency: str = ""
    arguments: Mapping[str, Any] | None = None
    held: Mapping[str, Any] | None = None
    hold_expires_at: datetime | None = None
    evidence: Sequence[Evidence] = ()
    risk_level: RiskLevel | str = ""

    def checked(self) -> Plan:
        """This plan, if it can be shown to an approver.

        Raises ``InvalidRequest`` if not, and ``PlanFailed`` for its evidence.
        """
        if not self.summary.strip() or len(self.summary) > SUMMARY_MAX:
            raise InvalidRequest(f"The summary must have 1 to {SUMMARY_MAX} characters.")
        if self.risk_level and self.risk_level not in list(RiskLevel):
            raise InvalidRequest(f"{self.risk_level!r:.20} is not one of {', '.join(RiskLevel)}.")
        if self.amount is not None:
            self._check_money(self.amount)
        seal(self.evidence)
        return self

    def _check_money(self, amount: Decimal) -> None:
        if self.currency not in CURRENCIES:
            raise InvalidRequest(f"{self.currency!r:.20} is not a currency of ISO 4217.")
        if not amount.is_finite() or not 0 <= amount < AMOUNT_MAX:
            raise InvalidRequest(f"{amount} is not an amount of money.")
        digits = get_currency_precision(self.currency)
        if round(amount, digits) != amount:
            raise InvalidRequest(f"{self.currency} has {digits} decimals; {amount} has more.")
