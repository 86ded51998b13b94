"""A number in an agent's words that is the amount but for a slip is told, and nothing else is."""

from __future__ import annotations

import time
from decimal import Decimal

import pytest
from hypothesis import assume, example, given, strategies as st

from ledger.reporting.usage.named_amounts import numbers_in
from ledger.reporting.usage.slips import is_slip, slip_in

DECIMALS = {"EUR": 2, "USD": 2, "CHF": 2, "JPY": 0, "KWD": 3}
# Thousands and decimals, as they are separated.
FORMATS = [("", "."), ("", ","), (",", "."), (".", ","), (" ", "."), ("\u202f", ","), ("'", ".")]
MARKS = {
    "EUR": ["€{}", "{} €", "{}€", "{} EUR", "EUR {}", "EUR{}", "{} euros", "{} Euro"],
    "USD": ["${}", "US${}", "{} USD", "{} dollars", "{} US-Dollar"],
    "CHF": ["CHF {}", "{} CHF", "{} Franken", "{} francs"],
    "JPY": ["¥{}", "{} yen", "JPY {}"],
    "KWD": ["{} KWD", "KWD {}"],
}
SENTENCES = ["{}", "The lamp broke, {} back.", "Rückzahlung von {}, wie besprochen!", "({})"]

minor_units = st.integers(1, 10**9)
currencies = st.sampled_from(sorted(DECIMALS))
formats = st.sampled_from(FORMATS)


def written(number, currency, style, mark=None):
    """So many cents (or mils, or yen) as somebody writes them."""
    thousands, point = style
    digits = DECIMALS[currency]
    whole, fraction = divmod(number, 10**digits)
    text = f"{whole:,}".replace(",", thousands)
    text += f"{point}{fraction:0{digits}}" if digits else ""
    return (mark or "{}").format(text)


def amount_of(number, currency):
    return Decimal(number).scaleb(-DECIMALS[currency])


def slips_of(number):
    """Everything that a slip makes of these digits."""
    length = range(len(number))
    replaced = {number[:at] + new + number[at + 1 :] for at in length for new in "0123456789"}
    left_out = {number[:at] + number[at + 1 :] for at in length}
    doubled = {number[:at] + number[at] + number[at:] for at in length}
    swapped = set()
    for first in length:
        for second in length:
            digits = list(number)
            digits[first], digits[second] = digits[second], digits[first]
            swapped.add("".join(digits))
    moved = {number + "0", number + "00"} | {
        number[: -len(zeros)] for zeros in ("0", "00") if number.endswith(zeros)
    }
    made = replaced | left_out | doubled | swapped | moved
    return {digits for digits in made if digits and digits[0] != "0"} - {number}


@given(minor_units, currencies, formats, st.sampled_from(SENTENCES), st.data())
def test_an_amount_with_a_slip_is_told_in_whatever_format(number, currency, style, sentence, data):
    slip = int(data.draw(st.sampled_from(sorted(slips_of(str(number)) or {"1"}))))
    mark = data.draw(st.sampled_from(MARKS[currency]))
    assume(slip != number)
    text = sentence.format(written(number, currency, style, mark))

    named = slip_in(text, amount_of(slip, currency), currency)

    # Of mils it may stay open whether 1.234 is a thousand, so that it may be the amount itself.
    (read,) = numbers_in(text, currency)
    if amount_of(slip, currency) not in read.readings:
        assert named == amount_of(number, currency)


@given(minor_units, minor_units, currencies, formats, st.data())
def test_nothing_is_told_where_the_words_name_the_amount_too(number, other, currency, style, data):
    mark = data.draw(st.sampled_from(MARKS[currency]))
    texts = [written(each, currency, style, mark) for each in (other, number)]
    first, second = data.draw(st.permutations(texts))

    text = f"Not {first} but {second}."

    assert slip_in(text, amount_of(number, currency), currency) is None


@given(minor_units, minor_units, currencies, formats, st.data())
def test_a_number_that_no_slip_makes_is_not_told(number, other, currency, style, data):
    assume(str(number) not in slips_of(str(other)) and str(other) not in slips_of(str(number)))
    text = written(other, currency, style, data.draw(st.sampled_from(MARKS[currency])))

    assert slip_in(text, amount_of(number, currency), currency) is None


digits = st.integers(1, 10**7).map(str)


@given(digits, digits)
@example("4840", "48400")
@example("4840", "484000")
@example("48", "84")
@example("100", "10")
@example("1", "11")
def test_a_slip_is_one_digit_two_swapped_or_the_point_moved(number, other):
    is_made = other in slips_of(number) or number in slips_of(other)

    assert is_slip(number, other) == is_made == is_slip(other, number)


@given(digits, st.data())
def test_each_slip_is_known_as_one(number, data):
    other = data.draw(st.sampled_from(sorted(slips_of(number) or {number})))

    assert is_slip(number, other) == (number != other)


@given(st.text(max_size=300), minor_units, currencies)
def test_any_text_is_read(text, number, currency):
    slip_in(text, amount_of(number, currency), currency)


@pytest.mark.parametrize(
    "text", ["1 " * 2500, "1" * 5000, "1 111" + " 111" * 1200 + "1", "1.1" * 1600, "€1," * 1600]
)
def test_no_text_takes_long(text):
    began = time.process_time()

    slip_in(text, Decimal("48.40"), "EUR")

    assert time.process_time() - began < 0.1


@pytest.mark.parametrize(
    ("text", "amount", "currency", "number"),
    [
        ("The lamp arrived broken, 48.40 back.", "484.00", "EUR", "48.40"),
        ("Order 4820 of 12.05.2026: 48.40 goes back.", "448.40", "EUR", "48.40"),
        ("She paid €129.00, of which €48.40 goes back.", "484.00", "EUR", "48.40"),
        ("Up to €50 we refund without a return; 48.40.", "484.00", "EUR", "48.40"),
        ("12 days late, so 48.40 back.", "48400.00", "EUR", None),
        ("Gutschrift über 48,40 Euro.", "84.40", "EUR", "48.40"),
        ("1,23,456.50 rupees back", "132456.50", "INR", "123456.50"),
        ("4840 cents", "484.00", "EUR", "48.40"),
        ("4840 back", "48400", "JPY", "4840"),
        ("refund 500", "50.00", "EUR", "500"),
        ("€30 back", "50.00", "EUR", "30"),
    ],
)
def test_the_number_that_is_told(text, amount, currency, number):
    expected = None if number is None else Decimal(number)

    assert slip_in(text, Decimal(amount), currency) == expected


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("Order 4840 arrived broken.", "484.00"),
        ("Payment pay_4840.", "484.00"),
        ("Case #48.40", "484.00"),
        ("RE-48.40", "484.00"),
        ("Ordered on 12.05.2026.", "120.50"),
        ("On 12.05. it came.", "120.50"),
        ("At 10:30, or 10.30 Uhr.", "103.00"),
        ("Version 1.20.3 of v1.20", "12.00"),
        ("It is 12 days late.", "120.00"),
        ("12 of 30 lamps broke.", "120.00"),
        ("It weighs 48.40 kg, 4.84 stars.", "484.00"),
        ("48,40 % of it", "484.00"),
        ("They charged $48.40.", "484.00"),
        ("48.40 dollars", "484.00"),
        ("Up to €50 we refund without asking.", "5.00"),
        ("Less than 48.40 is not worth a return.", "484.00"),
        ("About 48 euros back.", "48.40"),
        ("48 euros back.", "48.40"),
        ("rund 1200 Euro zurück", "1240.00"),
        ("The lamp cost €129.00; we promised ten per cent back.", "12.90"),
        ("10 % of 129.00", "12.90"),
        ("Paid €89.00, less a fee of €9.00.", "80.00"),
        ("3 lamps at 16.00", "48.00"),
        ("€484.00 in 10 instalments", "48.40"),
        ("€20 for the post and €30 for the lamp", "60.00"),
        ("", "48.40"),
    ],
)
def test_numbers_that_are_something_else_are_not_told(text, amount):
    assert slip_in(text, Decimal(amount), "EUR") is None
