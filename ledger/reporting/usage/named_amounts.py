"""Finds amounts of money in a text of people or agents, in whatever format they are written.

It is made for texts that nobody checked: order numbers, dates, ids, percentages, counts and money
of other currencies are told apart from amounts of the currency in question.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache

from babel.numbers import (
    get_currency_name,
    get_currency_precision,
    get_currency_symbol,
    list_currencies,
)

AROUND = 30  # characters before and after a number that tell what it is
CURRENCIES = frozenset(list_currencies())
NUMBERS_MOST = 40  # of one text
DIGITS_MOST = 18

_SPACES = " \u00a0\u2009\u202f"
_SYMBOLS = "$€£¥₹₩₽₺₴₫฿₪₦₱₡₲₵₸₮"
_APOSTROPHES = "'\u2019"
_NUMBER = re.compile(
    rf"\d{{1,3}}(?:[{_SPACES}]\d{{3}})+(?:[.,]\d{{1,3}})?(?!\d)|\d+(?:[.,{_APOSTROPHES}]\d+)*"
)
_MARK_BEFORE = re.compile(rf"(?<![^\W\d_])([A-Za-z]{{3}}|[A-Z]{{0,3}}[{_SYMBOLS}])[{_SPACES}]?$")
_MARK_AFTER = re.compile(rf"[{_SPACES}]?([^\W\d_]+(?:-[^\W\d_]+)?|[{_SYMBOLS}])")
# Part of something longer: pay_3003, #1042, 2026-05-12, 10:30, 3-day.
_GOES_ON_BEFORE = re.compile(r"[\w#]$|[\w][-–/:.,]$")  # noqa: RUF001
_GOES_ON_AFTER = re.compile(r"\w|[-–/:.,]\d|[-–/][^\W\d]")  # noqa: RUF001
_DAY_AND_MONTH = re.compile(r"(?:0?[1-9]|[12]\d|3[01])\.(?:0?[1-9]|1[0-2])")
_UNIT = re.compile(
    r"\s?(?:[%‰°\u00d7]|(?:per ?cent|prozent|hours?|hrs?|h|days?|weeks?|months?|years?|nights?"
    r"|minutes?|min|stunden?|tagen?|wochen?|monaten?|jahren?|nächten?|uhr|[ap]m|kg|g|km|cm|mm|m"
    r"|l|ml|kwh|[gmt]b|stars?|sternen?|points?|punkten?|million(?:en)?|mio|mrd|billion|thousand"
    r"|tsd|tausend|k|x|times|mal|items?|pieces?|stück)\b)",
    re.I,
)
_BOUND = re.compile(
    r"\b(?:up to|at most|at least|(?:no )?more than|less than|over|under|above|below|limit(?: of)?"
    r"|max(?:imum)?(?: of)?|maximal|bis(?: zu)?|höchstens|mindestens|mehr als|weniger als|unter"
    r"|grenze(?: von)?)[.:]?\s*$",
    re.I,
)
_ROUGHLY = re.compile(
    r"(?:\b(?:about|around|roughly|approx|approximately|circa|ca|etwa|rund|ungefähr|knapp|gut"
    r"|almost|nearly|some)\.?|[~≈])\s*$",
    re.I,
)
# Whole numbers without a currency are money only right behind such a word, or before "back".
_MONEY_WORD = re.compile(
    r"\b(?:amount|total|sum|price|refund|refunds|refunded|reimburse|pay|pays|paid|credit|transfer"
    r"|betrag|summe|preis|erstattung|gutschrift|erstatten|zahlen)"
    r"(?:\s+(?:of|is|was|von|über|in höhe von))?[:=]?\s*$",
    re.I,
)
_BACK = re.compile(r"\s+(?:back|zurück)\b", re.I)
_SENTENCE_GOES_ON = re.compile(
    r"\s*(?:$|[.,;:!?)]|(?:to|for|and|as|because|since|an|für|und|als|weil|wegen)\b)", re.I
)
_CENTS = frozenset({"cent", "cents", "ct"})


@dataclass(frozen=True, slots=True)
class Named:
    """A number of a text. ``readings`` has more than one where its format leaves it open.

    ``is_money``: an amount of the currency that was asked for, and not a bound ("up to 50").
    """

    readings: tuple[Decimal, ...]
    is_money: bool
    is_rough: bool = False  # "about 50"

    @property
    def value(self) -> Decimal:
        return self.readings[0]

    @property
    def decimals(self) -> int:
        return decimals_of(self.value)


def numbers_in(text: str, currency: str) -> list[Named]:
    """The numbers of a text that stand for themselves, the first ``NUMBERS_MOST``."""
    numbers: list[Named] = []
    for match in _NUMBER.finditer(text):
        before = text[max(0, match.start() - AROUND) : match.start()]
        after = text[match.end() : match.end() + AROUND]
        named = _named(match.group(), before, after, currency)
        numbers += [] if named is None else [named]
        if len(numbers) == NUMBERS_MOST:
            break
    return numbers


def decimals_of(value: Decimal) -> int:
    return max(0, -int(value.as_tuple().exponent))


def _named(written: str, before: str, after: str, currency: str) -> Named | None:
    digits = get_currency_precision(currency)
    readings = tuple(_readings(written, digits))
    before_mark, left = _split(_MARK_BEFORE.search(before), before, currency)
    after_mark, right = _split(_MARK_AFTER.match(after), after, currency)
    goes_on = _GOES_ON_BEFORE.search(left) or (not after_mark and _GOES_ON_AFTER.match(right))
    if not readings or goes_on:
        return None
    if after_mark == "cents":
        readings = tuple(each.scaleb(-digits) for each in readings)
    is_foreign = "foreign" in {before_mark, after_mark}
    is_money = bool(before_mark or after_mark) or _looks_like_money(written, left, right, digits)
    is_bound = bool(_BOUND.search(left)) or bool(_UNIT.match(after))
    return Named(
        readings,
        is_money=is_money and not is_foreign and not is_bound,
        is_rough=bool(_ROUGHLY.search(left)),
    )


def _looks_like_money(written: str, before: str, after: str, digits: int) -> bool:
    """Of a number without a currency beside it."""
    fraction = re.search(r"[.,](\d+)$", written)
    if fraction and digits and len(fraction[1]) == digits:
        return not (_DAY_AND_MONTH.fullmatch(written) and after.startswith("."))
    if len(written) < 2:
        return False
    is_named = _MONEY_WORD.search(before) and _SENTENCE_GOES_ON.match(after)
    return bool(is_named or _BACK.match(after))


# --- how numbers are written ----------------------------------------------------------------------


def _readings(written: str, digits: int) -> Iterator[Decimal]:
    """The likeliest first: ``1.234`` is a thousand and more, except of a currency of mils."""
    if sum(each.isdigit() for each in written) > DIGITS_MOST:
        return
    *_, last = re.split(rf"[{_SPACES}]", written)
    plain = re.sub(rf"[{_SPACES}{_APOSTROPHES}]", "", written)
    parts = re.split(r"[.,]", plain)
    if len(parts) == 1:
        yield Decimal(plain)
    elif len(set(re.findall(r"[.,]", plain))) == 2 or len(parts) == 2:
        is_open = len(parts) == 2 and len(parts[1]) == 3 and re.match(r"[^0]\d{0,2}$", parts[0])
        fraction = Decimal("".join(parts[:-1]) + "." + parts[-1])
        if is_open and digits != 3:
            yield Decimal("".join(parts))
        elif is_open:
            yield from (fraction, Decimal("".join(parts)))
        else:
            yield fraction
    elif all(len(part) in {2, 3} for part in parts[1:]) and len(parts[-1]) == 3:
        yield Decimal("".join(parts))
    if last != written:  # "12 484.00" may be two numbers
        yield from _readings(last, digits)


# --- currencies -----------------------------------------------------------------------------------


def _split(match: re.Match[str] | None, around: str, currency: str) -> tuple[str, str]:
    """The kind of mark that stands beside a number, and the text beyond it."""
    kind = _kind_of_mark(match[1], currency) if match else ""
    if match is None or not kind:
        return "", around
    return kind, around[: match.start()] if match.end() == len(around) else around[match.end() :]


def _kind_of_mark(mark: str, currency: str) -> str:
    """``own``, ``foreign`` or ``cents``; empty of other words."""
    if mark[-1] in _SYMBOLS:
        is_own = get_currency_symbol(currency, "en").endswith(mark[-1])
        return "own" if is_own else "foreign"
    if mark.isupper() and mark in CURRENCIES:
        return "own" if mark == currency else "foreign"
    word = mark.casefold()
    if word in _CENTS and get_currency_precision(currency) == 2:
        return "cents"
    if word in _names_of(currency):
        return "own"
    is_name = any(word in _names_of(other) for other in ("EUR", "USD", "GBP", "JPY", "CHF"))
    return "foreign" if is_name else ""


@lru_cache(maxsize=200)
def _names_of(currency: str) -> frozenset[str]:
    """Names as they stand beside a number: ``euros``, ``dollars``, ``us-dollar``, ``franken``."""
    names = {
        get_currency_name(currency, count, locale).casefold()
        for locale in ("en", "de")
        for count in (1, 2)
    }
    return frozenset(
        part for name in names for part in (name.split()[-1], name.split()[-1].split("-")[-1])
    )
