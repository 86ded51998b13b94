"""Budgets of rules and grants: how much they may let pass in a day, a month or in all. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any
from zoneinfo import ZoneInfo

from pydantic import BaseModel, ConfigDict, field_validator

from ledger import seals
from ledger.sign_off.rules.facts import Facts, money_in, number_in

TIMES = "times"  # the measure of a budget that counts proposals
MOST_BUDGETS = 3  # of one rule or grant
LARGEST = Decimal(10) ** 15
# Between the time that a charge is of and that of its event.
TOLERANCE = timedelta(minutes=1)


class Per(StrEnum):
    """The time after which a budget begins anew."""

    DAY = "day"
    MONTH = "month"
    TOTAL = "total"


FORMATS = {Per.DAY: "%Y-%m-%d", Per.MONTH: "%Y-%m", Per.TOTAL: ""}


class Budget(BaseModel):
    """So much money, as “500 EUR”, or so many proposals, as “20”, in each day, month or in all."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    most: str
    per: Per = Per.DAY

    @field_validator("most", mode="before")
    @classmethod
    def _as_measured(cls, value: Any) -> str:
        text = str(value).strip()
        limit, measure = limit_in(text)
        if not 0 < limit <= LARGEST or limit != round(limit, 0 if measure == TIMES else 6):
            raise ValueError(f"{text!r} is no budget: “500 EUR”, or a number of times")
        return text

    @property
    def limit(self) -> Decimal:
        return limit_in(self.most)[0]

    @property
    def measure(self) -> str:
        """A currency (ISO 4217), or ``TIMES``."""
        return limit_in(self.most)[1]

    def amount_of(self, facts: Facts) -> Decimal | None:
        """The part of it that one proposal takes; ``None``: that is not known."""
        if self.measure == TIMES:
            return Decimal(1)
        is_known = facts.is_planned and facts.currency == self.measure
        return facts.amount if is_known else None

    def covers(self, other: Budget) -> bool:
        """True if it lets no more pass than the other, of the same measure."""
        is_alike = (self.measure, self.per) == (other.measure, other.per)
        return is_alike and self.limit <= other.limit


def limit_in(text: str) -> tuple[Decimal, str]:
    """``500 EUR`` or ``20`` as a limit and its measure. Raises ``ValueError``."""
    return money_in(text) if " " in text.strip() else (number_in(text), TIMES)


@dataclass(frozen=True, slots=True)
class Charge:
    """A part of a budget that one transaction takes, as its event seals it.

    ``owner`` is ``rule:<hash of its conditions>`` or ``grant:<id>``, so that a rule keeps what it
    has used when a set is activated in which only its limit is another one.
    """

    owner: str
    measure: str
    per: Per
    period: str  # of the tenant's ``zone``: 2026-11-29, 2026-11, or empty
    zone: str
    amount: Decimal
    most: Decimal

    @property
    def budget(self) -> tuple[str, str, str]:
        return self.owner, self.measure, self.period

    def as_json(self) -> dict[str, str]:
        return {
            "owner": self.owner,
            "measure": self.measure,
            "per": self.per.value,
            "period": self.period,
            "zone": self.zone,
            "amount": _text_of(self.amount),
            "most": _text_of(self.most),
        }


def charge_from(value: Mapping[str, str]) -> Charge:
    """The charge of ``Charge.as_json()``. Raises ``ValueError, KeyError``."""
    owner, measure, period, zone = (value[name] for name in ("owner", "measure", "period", "zone"))
    amount, most = (number_in(value[name]) for name in ("amount", "most"))
    return Charge(owner, measure, Per(value["per"]), period, zone, amount, most)


def charges_for(
    owner: str, budgets: Iterable[Budget], facts: Facts, now: datetime, zone: str
) -> list[Charge] | None:
    """The charges of one proposal; ``None`` where it is not known how much one would be."""
    charges = []
    for budget in budgets:
        amount = budget.amount_of(facts)
        if amount is None:
            return None
        period = period_of(budget.per, now, zone)
        charges.append(
            Charge(owner, budget.measure, budget.per, period, zone, amount, budget.limit)
        )
    return charges


def are_taken(
    sealed: Any, limits: Iterable[tuple[str, Sequence[Budget]]], facts: Facts, at: datetime
) -> bool:
    """True if an event of this time sealed exactly the charges that these budgets make of a
    proposal. ``limits`` has owners with their budgets."""
    pairs = [(owner, budget) for owner, budgets in limits for budget in budgets]
    try:
        zone = sealed[0]["zone"] if sealed else "UTC"
        return any(
            sealed
            == [
                charge.as_json()
                for owner, budget in pairs
                for charge in charges_for(owner, [budget], facts, moment, zone) or ()
            ]
            for moment in (at - TOLERANCE, at, at + TOLERANCE)
        )
    except (LookupError, TypeError, ValueError, OSError):
        return False  # there is no such zone


def period_of(per: Per, at: datetime, zone: str) -> str:
    return at.astimezone(ZoneInfo(zone)).strftime(FORMATS[per])


def owner_of_rule(when: Mapping[str, Any]) -> str:
    """The name of a rule's budgets, of its conditions as JSON."""
    return f"rule:{seals.digest_of(dict(when))[:32]}"


def _text_of(number: Decimal) -> str:
    return f"{number.normalize():f}"
