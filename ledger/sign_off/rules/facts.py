"""Facts about a proposal, and the comparisons that a rule makes with them. Pure.

A comparison is true, false or ``None``: the fact is not known. What tightens counts unless a
comparison is false; what loosens counts only where every one is true.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from operator import ge, le, lt
from typing import Any

from ledger.contracts import CURRENCIES, ConsequenceLevel, RiskLevel
from ledger.principals import Principal

ARGUMENT = "arguments."  # begins the name of the fact that is the value of an argument
LISTED = frozenset({"tool", "agent", "risk", "consequence"})
LEVELS: dict[str, list[str]] = {"risk": list(RiskLevel), "consequence": list(ConsequenceLevel)}
LIMITS: dict[str, Callable[[Decimal, Decimal], bool]] = {"below": lt, "at_most": le, "at_least": ge}
Truth = bool | None


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts that are known of one proposal.

    ``is_planned`` is false before its plan: then amount, risk and arguments may still change.
    """

    tool: str
    agent: str
    risk: str
    consequence: str
    arguments: Mapping[str, Any]
    amount: Decimal | None = None
    currency: str = ""
    is_planned: bool = True
    tool_version: str = ""  # of one that is not Python; no rule compares it


def facts_of(row: Any) -> Facts:
    """Facts of a transaction, from its sealed columns."""
    return Facts(
        tool=row.tool,
        agent=agent_in(row.proposed_by),
        risk=row.risk_level,
        consequence=row.consequence_level,
        arguments=row.arguments,
        amount=row.amount,
        currency=row.currency,
        tool_version=row.tool_version or "",
    )


def agent_in(principal: str) -> str:
    """The name by which rules know a proposer: the agent's slug, or the whole principal."""
    by = Principal.parse(principal)
    return by.slug if by.is_agent else principal


Test = Callable[[Facts], Truth]


def comparison(fact: str, operator: str, wanted: Any) -> Test:
    """The test for one comparison. Raises ``ValueError``, in words, for one that makes no sense."""
    if fact == "amount":
        return _of_amount(operator, wanted)
    if fact.startswith(ARGUMENT) and len(fact) > len(ARGUMENT):
        return _of_argument(fact.removeprefix(ARGUMENT), operator, wanted)
    if fact not in LISTED:
        raise ValueError(
            f"{fact} is no fact: use tool, agent, amount, risk, consequence or an "
            "argument as arguments.<name>"
        )
    if operator in {"is", "is_not"}:
        return _of_names(fact, operator, wanted)
    if operator == "at_least" and fact == "risk":
        return _of_level(fact, wanted)
    raise ValueError(f"{fact} cannot be compared with {operator}")


def _of_names(fact: str, operator: str, wanted: list[str]) -> Test:
    levels = LEVELS.get(fact)
    if levels and (wrong := sorted(set(wanted) - set(levels))):
        raise ValueError(f"{fact} is one of {', '.join(levels)}, not {wrong[0]}")
    names, is_wanted = frozenset(wanted), operator == "is"
    may_change = fact == "risk"

    def test(facts: Facts) -> Truth:
        if may_change and not facts.is_planned:
            return None
        return (getattr(facts, fact) in names) is is_wanted

    return test


def _of_level(fact: str, wanted: str) -> Test:
    levels = LEVELS[fact]
    if wanted not in levels:
        raise ValueError(f"{fact} is one of {', '.join(levels)}, not {wanted}")
    least = levels.index(wanted)

    def test(facts: Facts) -> Truth:
        if levels.index(facts.risk) >= least:
            return True  # a plan only raises it
        return False if facts.is_planned else None

    return test


def money_in(text: str) -> tuple[Decimal, str]:
    """``50 EUR`` as its amount and currency (ISO 4217). Raises ``ValueError``."""
    number, _, currency = text.strip().partition(" ")
    if currency not in CURRENCIES:
        raise ValueError(f"{text!r} is no amount with its currency, as “50 EUR”")
    return number_in(number), currency


def number_in(text: Any) -> Decimal:
    """A number. Raises ``ValueError``."""
    try:
        number = Decimal(str(text))
    except InvalidOperation:
        number = Decimal("NaN")
    if isinstance(text, bool) or not number.is_finite():
        raise ValueError(f"{text!r} is no number")
    return number


def _of_amount(operator: str, wanted: str) -> Test:
    if operator not in LIMITS:
        raise ValueError("an amount is below, at_most or at_least so much, as “50 EUR”")
    limit, currency = money_in(wanted)

    def test(facts: Facts) -> Truth:
        if not facts.is_planned or facts.amount is None or facts.currency != currency:
            return None
        return LIMITS[operator](facts.amount, limit)

    return test


def _of_argument(name: str, operator: str, wanted: Any) -> Test:
    if operator in LIMITS:
        return _of_number(name, operator, number_in(wanted))
    names, is_wanted = frozenset(wanted), operator == "is"
    alike = frozenset(map(_folded, names))

    def test(facts: Facts) -> Truth:
        value = facts.arguments.get(name)
        if value is None or isinstance(value, dict | list):
            return None
        text = text_of(value)
        if text not in names and _folded(text) in alike:
            return None  # for the tool both may be the same, or not
        return (text in names) is is_wanted

    return test


def _of_number(name: str, operator: str, limit: Decimal) -> Test:
    def test(facts: Facts) -> Truth:
        try:
            number = number_in(facts.arguments.get(name))
        except ValueError:
            return None
        return LIMITS[operator](number, limit)

    return test


@lru_cache(maxsize=16)  # many rules compare one argument, which may be long
def _folded(text: str) -> str:
    """Without differences of case, white space, width, and of how a number is written."""
    text = " ".join(unicodedata.normalize("NFKC", text).split()).casefold()
    try:
        return str(number_in(text).normalize() + 0)
    except (ValueError, ArithmeticError):
        return text


def text_of(value: Any) -> str:
    """A value of an argument as rules compare it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{Decimal(str(value)).normalize() + 0:f}"  # 100 for 100.0 and 1e2
    return str(value)
