"""Errors that are planted: slips at a keyboard, amounts beyond the range, strangers, bursts."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal

from babel.numbers import get_currency_precision

from bench.usual.requests import NAMING, SILENT, Profile, Request, amount_of, request, words

Slip = Callable[[random.Random, str], str]


def _tenfold(dice: random.Random, digits: str) -> str:
    return dice.choice([digits + "0", digits + "00", digits[:-1] if digits[-1] == "0" else ""])


def _swapped(dice: random.Random, digits: str) -> str:
    at = dice.randrange(len(digits) - 1)
    return digits[:at] + digits[at + 1] + digits[at] + digits[at + 2 :]


def _replaced(dice: random.Random, digits: str) -> str:
    at = dice.randrange(len(digits))
    return digits[:at] + str(dice.randrange(10)) + digits[at + 1 :]


def _left_out(dice: random.Random, digits: str) -> str:
    at = dice.randrange(len(digits))
    return digits[:at] + digits[at + 1 :]


def _doubled(dice: random.Random, digits: str) -> str:
    at = dice.randrange(len(digits))
    return digits[:at] + digits[at] + digits[at:]


SLIPS: dict[str, Slip] = {
    "factor of ten": _tenfold,
    "two digits swapped": _swapped,
    "a digit replaced": _replaced,
    "a digit left out": _left_out,
    "a digit doubled": _doubled,
}


def with_slip(
    slip: Slip, profile: Profile, dice: random.Random, at: datetime, subject: str, *, is_named: bool
) -> Request:
    """A request whose amount is not the one that was meant; its words may name that one."""
    digits = get_currency_precision(profile.currency)
    while True:
        meant = amount_of(profile, dice, subject) or Decimal(1)
        typed = slip(dice, str(int(meant.scaleb(digits))))
        if typed and typed[0] != "0" and (amount := Decimal(typed).scaleb(-digits)) != meant:
            template = dice.choice(NAMING if is_named else SILENT[:2])
            reason = words(template, dice, meant, profile.currency)
            return Request(at, amount, profile.currency, subject, reason)


def beyond(profile: Profile, dice: random.Random, at: datetime, subject: str) -> Request:
    """Four times what one of a hundred ordinary requests exceeds; its words agree with it."""
    subjects = (profile.subject(dice, place) for place in range(1_000))
    many = sorted(amount_of(profile, dice, each) or Decimal(1) for each in subjects)
    amount = many[989] * 4
    reason = words(dice.choice(NAMING), dice, amount, profile.currency)
    return Request(at, amount, profile.currency, subject, reason)


def stranger(profile: Profile, dice: random.Random, at: datetime) -> Request:
    return request(profile, dice, at, f"stranger {dice.random()}")


def burst(profile: Profile, dice: random.Random, at: datetime) -> list[Request]:
    """Within half an hour four times as many as in its busiest hour."""
    number = max(40, 4 * profile.busiest)
    ordinary = [
        request(profile, dice, at, profile.subject(dice, dice.randrange(900)))
        for _ in range(number)
    ]
    step = timedelta(minutes=30) / number
    return [replace(each, at=at + step * place) for place, each in enumerate(ordinary)]
