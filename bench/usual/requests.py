"""Agents made up by chance: when they ask, for how much, for whom, and in what words."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from babel.numbers import get_currency_precision

DAYS = 34  # subjects are known for 35 days


@dataclass(frozen=True, slots=True)
class Request:
    at: datetime
    amount: Decimal | None
    currency: str
    subject: str
    reason: str


@dataclass(frozen=True, slots=True)
class Profile:
    """An agent and what it is used for. ``hours``: those of a day in which it asks."""

    name: str
    hours: Callable[[random.Random, int], list[int]]
    amount: Callable[[random.Random, str], float] | None
    subject: Callable[[random.Random, int], str]
    currency: str = "EUR"
    recurs: bool = False  # subjects that a new one stands out from
    busiest: int = 10  # requests in an hour


def requests_of(profile: Profile, dice: random.Random, begin: datetime) -> Iterator[Request]:
    number = 0
    for day in range(DAYS):
        times = [
            begin + timedelta(days=day, hours=hour, seconds=dice.uniform(0, 3599))
            for hour in profile.hours(dice, day)
        ]
        for at in sorted(times):
            number += 1
            yield request(profile, dice, at, profile.subject(dice, number))


def request(profile: Profile, dice: random.Random, at: datetime, subject: str) -> Request:
    amount = amount_of(profile, dice, subject)
    template = dice.choice(NAMING if amount is not None and dice.random() < 0.6 else SILENT)
    reason = words(template, dice, amount or Decimal(dice.randint(20, 900)), profile.currency)
    return Request(at, amount, profile.currency, subject, reason)


def amount_of(profile: Profile, dice: random.Random, subject: str) -> Decimal | None:
    if profile.amount is None:
        return None
    digits = get_currency_precision(profile.currency)
    smallest = Decimal(1).scaleb(-digits)
    return max(round(Decimal(profile.amount(dice, subject)), digits), 20 * smallest)


# --- agents ---------------------------------------------------------------------------------------


def _all_day(dice: random.Random, day: int) -> list[int]:
    return [dice.randint(7, 18) for _ in range(dice.randint(14, 26))]


def _in_office(dice: random.Random, day: int) -> list[int]:
    """Weekdays, and each Friday a run of forty within one hour."""
    if day % 7 >= 5:
        return []
    return [dice.randint(8, 16) for _ in range(dice.randint(4, 12))] + [14] * 40 * (day % 7 == 4)


def _begins_late(dice: random.Random, day: int) -> list[int]:
    """In its last eight days, a few more each day."""
    return [dice.randint(7, 18) for _ in range(max(0, day - 25) * 3)]


def _now_and_then(dice: random.Random, day: int) -> list[int]:
    return [dice.randint(0, 23) for _ in range(dice.choice([0, 0, 1, 1, 2, 3]))]


def _lognormal(median: float, spread: float) -> Callable[[random.Random, str], float]:
    return lambda dice, subject: median * dice.lognormvariate(0, spread)


def _steep(dice: random.Random, subject: str) -> float:
    """Invoices: many small ones, a few very large."""
    return 40 * dice.paretovariate(1.3)


def _fee(dice: random.Random, subject: str) -> float:
    """One of three fees, the same for a customer each time."""
    return random.Random(subject).choice([9.90, 19.90, 49.90])


def _of(number: int, favoured: float) -> Callable[[random.Random, int], str]:
    """One of so many customers, some of them far more often than others."""
    return lambda dice, place: f"customer {int(number * dice.random() ** favoured)}"


def _once(dice: random.Random, place: int) -> str:
    return f"INV-{10_000 + place}"


def _in_turn(dice: random.Random, place: int) -> str:
    return f"customer {place % 60}"


PROFILES = (
    # The kinds of the demo: refunds, flights, terminations.
    Profile("refunds", _all_day, _lognormal(70, 0.9), _of(3_000, 1)),
    Profile("flights", _all_day, _lognormal(28_000, 0.5), _of(10, 1), "JPY", recurs=True),
    Profile("terminations", _now_and_then, None, _once, busiest=4),
    Profile("steady", _all_day, _lognormal(140, 0.6), _of(30, 2), recurs=True),
    Profile("weekly rhythm", _in_office, _lognormal(900, 0.7), _of(40, 1), "USD", busiest=45),
    Profile("new agent", _begins_late, _lognormal(60, 0.7), _of(500, 1)),
    Profile("invoices", _all_day, _steep, _once),
    Profile("recurring customers", _all_day, _fee, _in_turn, recurs=True),
)


# --- their words ----------------------------------------------------------------------------------

NAMING = (
    "The lamp arrived broken, {money} back.",
    "Refund {money} for order {order}, as agreed on {date}.",
    "The customer paid {other} on {date}, of which {money} goes back.",
    "Erstattung von {money} zu Rechnung {order}; die Ware kam {days} Tage zu spät.",
    "Invoice {order}, {money}, due within {days} days.",
    "Charged twice: {money} each time ({id}).",
    "{money} for {count} items of order #{order}, {percent} % of which came back.",
    "Up to {bound} we refund without a return. It is {money}.",
    "Gutschrift über {money}, Kundin seit {year}.",
)
SILENT = (
    "",
    "It came {days} days late; order {order} of {date}.",
    "The order was {tenfold}; we promised ten per cent back.",
    "Of {other} paid on {date}, {count} pieces are missing.",
    "Paid {more}, less a fee of {fee}.",
    "The customer asked for {near}; we agreed on something else.",
    "Order {order}: {near} for the lamp, {fee} for the post.",
    "See {id} and version 2.14: {percent} % of it came back.",
    "Up to {bound} we refund without a return.",
    "Die Ware kam {days} Tage zu spät, Bestellung {order}.",
    "No request for 30 days; it costs {other} a month.",
    "{count} of 12 lamps are broken, and it weighs {weight} kg.",
)
MARKS = {
    "EUR": ("€{}", "{} €", "{} EUR", "EUR {}", "{} euros", "{} Euro", "{}"),
    "USD": ("${}", "US${}", "{} USD", "USD {}", "{} dollars", "{}"),
    "JPY": ("¥{}", "{} JPY", "JPY {}", "{} yen"),
}
SEPARATORS = (("", "."), ("", ","), (",", "."), (".", ","), (" ", "."), ("\u202f", ","))


def words(template: str, dice: random.Random, amount: Decimal, currency: str) -> str:
    """The template with the amount in some format, and with numbers that are something else."""
    unit = Decimal(1).scaleb(-get_currency_precision(currency))
    other = (amount * Decimal(dice.uniform(1.2, 12))).quantize(unit)
    fee = (amount * Decimal(dice.uniform(0.01, 0.3))).quantize(unit)
    near = (amount * Decimal(dice.uniform(0.7, 1.4))).quantize(unit)
    numbers = {
        "money": amount,
        "other": other,
        "tenfold": amount * 10,
        "more": amount + fee,
        "fee": fee,
        "near": near,
        "bound": Decimal(dice.choice([50, 100, 500, 1000])),
    }
    return template.format(
        **{name: written(number, dice, currency) for name, number in numbers.items()},
        order=dice.randint(1_000, 99_999),
        date=dice.choice(["2026-{1:02}-{0:02}", "{0:02}.{1:02}.2026", "{1}/{0}/2026"]).format(
            dice.randint(1, 28), dice.randint(1, 12)
        ),
        days=dice.randint(2, 40),
        count=dice.randint(2, 9),
        percent=dice.choice([5, 10, 12.5, 20]),
        id=f"pay_{dice.randint(1_000, 9_999)}",
        year=dice.randint(2004, 2025),
        weight=dice.choice(["4.80", "12,50", "0.48"]),
    )


def written(amount: Decimal, dice: random.Random, currency: str) -> str:
    thousands, point = dice.choice(SEPARATORS)
    digits = get_currency_precision(currency)
    whole, _, fraction = f"{amount:.{digits}f}".partition(".")
    text = f"{int(whole):,}".replace(",", thousands) + (point + fraction if fraction else "")
    return dice.choice(MARKS[currency]).format(text)
