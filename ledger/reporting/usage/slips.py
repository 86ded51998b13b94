"""Finds the amount that an agent's words name and that differs from the real one by a slip.

A slip is what happens at a keyboard: one digit replaced, left out or doubled, two digits swapped,
the decimal point moved by one or two places.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise

from babel.numbers import get_currency_precision

from ledger.models import Transaction
from ledger.reporting.usage.named_amounts import Named, decimals_of, numbers_in

TEXT_MOST = 5_000  # characters that are read
_PER_CENT = re.compile(
    r"(\d{1,3}(?:[.,]\d{1,2})?|ten|zehn|one|ein)\s?(?:%|per ?cent|prozent)", re.I
)
_IN_WORDS = {"ten": 10, "zehn": 10, "one": 1, "ein": 1}
# A number is multiplied or divided by another one.
_SHARED_OUT = re.compile(
    r"[\u00d7*]|\b(?:each|apiece|à|je|times|mal|x|instal?lments?|raten|months?|monaten?|nights?"
    r"|nächten?)\b|\b\d+ at\b",
    re.I,
)


@dataclass(frozen=True, slots=True)
class Slip:
    """The number that stands in a text of the transaction, in place of its amount."""

    number: Decimal
    is_in_reason: bool  # else in the summary

    @property
    def decimals(self) -> int:
        """As many as it is written with."""
        return decimals_of(self.number)


def slip_of(row: Transaction) -> Slip | None:
    """Each text is judged alone: a summary is often made from the amount, a reason is not."""
    if row.amount is None or not row.amount:
        return None
    for text, is_in_reason in ((row.stated_reason, True), (row.action_summary, False)):
        number = slip_in(text[:TEXT_MOST], row.amount, row.currency)
        if number is not None:
            return Slip(number, is_in_reason)
    return None


def slip_in(text: str, amount: Decimal, currency: str) -> Decimal | None:
    """The number of a text that is ``amount`` but for a slip; ``None`` if the text names it too."""
    digits = get_currency_precision(currency)
    numbers = numbers_in(text, currency)
    if any(_names(each, amount) for each in numbers):
        return None
    amounts = [each for each in numbers if each.is_money and decimals_of(each.value) <= digits]
    is_single = len({each.value for each in amounts}) == 1
    for each in amounts:
        both = tuple(str(int(number.scaleb(digits))) for number in (each.value, amount))
        is_clear = is_single or all(len(number.rstrip("0")) > 1 for number in both)
        if is_clear and is_slip(*both) and not _is_explained(each, numbers, amount, text, digits):
            return each.value
    return None


def _names(number: Named, amount: Decimal) -> bool:
    """True if it is the amount, or what is left of it without its cents, or rounded."""
    if amount in number.readings:
        return True
    zeros = len(str(number.value)) - len(str(number.value).rstrip("0"))
    step = Decimal(10) ** (zeros if number.is_rough and not number.decimals else -number.decimals)
    return number.is_money and abs(number.value - amount) < step


# --- slips ----------------------------------------------------------------------------------------


def is_slip(number: str, other: str) -> bool:
    """True if one of two different numbers, in cents, becomes the other by one slip."""
    if number == other or "0" in {number, other}:
        return False
    if len(number) == len(other):
        return _are_swapped_or_replaced(number, other)
    longer, shorter = sorted((number, other), key=len, reverse=True)
    is_moved = longer in {shorter + "0", shorter + "00"}
    return is_moved or (len(longer) == len(shorter) + 1 and _has_one_more(longer, shorter))


def _are_swapped_or_replaced(number: str, other: str) -> bool:
    different = [pair for pair in zip(number, other, strict=True) if pair[0] != pair[1]]
    return len(different) == 1 or (len(different) == 2 and different[0] == different[1][::-1])


def _has_one_more(longer: str, shorter: str) -> bool:
    return any(longer[:place] + longer[place + 1 :] == shorter for place in range(len(longer)))


# --- what explains it -----------------------------------------------------------------------------


def _is_explained(
    number: Named, numbers: Sequence[Named], amount: Decimal, text: str, digits: int
) -> bool:
    """True if the text says how the amount follows from this number: "10 % of 129.00"."""
    others = [each.value for each in numbers if each is not number]
    results = (
        *_with_percentages(number.value, text),
        *_with_others(number.value, others, is_shared=bool(_SHARED_OUT.search(text))),
    )
    return any(round(result, digits) == amount for result in results)


def _with_percentages(number: Decimal, text: str) -> Iterator[Decimal]:
    for written in _PER_CENT.findall(text):
        known = _IN_WORDS.get(written.casefold())
        share = Decimal(known if known else written.replace(",", ".")) / 100
        yield from (number * share, number * (1 - share), number * (1 + share))


def _with_others(
    number: Decimal, others: Sequence[Decimal], *, is_shared: bool
) -> Iterator[Decimal]:
    for other in others:
        yield from (number + other, abs(number - other))
        if is_shared and other:
            yield from (number * other, number / other)
    yield number + sum(others)
    yield number - sum(others)
    for first, second in pairwise(others):
        yield abs(number - first - second)
