"""The word that the approver of an irreversible transaction types, and its accepted spellings.

Strict about the number, kind about its form: digits in any grouping, with or without the sign or
the code of the currency, with or without decimals. ``static/js/dialogs.js`` has the same rule, so
that the dialog can say at once whether it matches; what counts is the answer from here.
"""

from __future__ import annotations

import re
import unicodedata
from decimal import Decimal

from babel.numbers import get_currency_precision, get_currency_symbol
from django.utils import translation
from django.utils.translation import get_language

from approvals.desk.policies import money
from approvals.http.preferences import formats_of
from approvals.presentation import reader_locale
from ledger.contracts import key_fields
from ledger.models import Transaction
from ledger.tools import tool_of

WORD_MOST = 60  # characters that a person can be asked to type
# Arabic and Swiss separators; every kind of space is left out before.
SEPARATORS = str.maketrans({"\u066b": ".", "\u066c": ",", "'": ",", "\u2019": ","})
# By thousands, or as in India: "12,34,567".
GROUPED = re.compile(r"\d{1,3}([.,])\d{3}(?:\1\d{3})*|\d{1,2}(?:,\d\d)+,\d{3}")


def confirmation_word(row: Transaction) -> str:
    """The text that the approver is asked to type: the amount as it is shown, else the name."""
    if row.amount is None:
        return names_of_target(row)[0]
    word = _typable(money(row))
    if is_amount(word, row.amount, row.currency):
        return word
    return word_for_machines(row)  # "12,345 BHD" of German would say something else in English


def word_for_machines(row: Transaction) -> str:
    """The same text in English, for what is signed or stored whatever the language."""
    with translation.override("en"), formats_of(""):
        return names_of_target(row)[0] if row.amount is None else _typable(money(row))


def _typable(text: str) -> str:
    """Without the spaces that no keyboard has."""
    return text.replace("\u2009", "").replace("\u00a0", " ").replace("\u202f", " ")


def is_confirmed(typed: str, row: Transaction) -> bool:
    """True if the text names the amount, or without one the target, in an accepted spelling."""
    if row.amount is not None:
        return is_amount(typed, row.amount, row.currency)
    return any(is_word(typed, name) for name in names_of_target(row))


def names_of_target(row: Transaction) -> list[str]:
    """The names of the target: the one in the summary, if there is one, and its id.

    The id is the first argument of the operation key, else the tool's name. Its name is the word
    before it in the summary that the tool wrote: ``Terminate reports-11 (i-7d4a, large)``.
    """
    target = _target(row)
    named = re.search(rf"(\S+)\s+\({re.escape(target)}(?=[\s,;)])", row.action_summary)
    if named and len(named[1]) <= WORD_MOST:
        return [named[1], target]
    return [target]


def _target(row: Transaction) -> str:
    tool = tool_of(row)
    for name in key_fields(tool.contract.operation_key) if tool else ():
        value = " ".join(str(row.arguments.get(name, "")).split())
        if name != "tenant" and 0 < len(value) <= WORD_MOST:
            return value
    return row.tool


def is_word(typed: str, word: str) -> bool:
    """True if the text equals the word, apart from spaces and case. An empty word never matches."""
    expected = "".join(word.split()).casefold()
    return bool(expected) and "".join(typed.split()).casefold() == expected


def is_amount(typed: str, amount: Decimal, currency: str) -> bool:
    """True if the text says exactly this amount.

    >>> [is_amount(text, Decimal(125000), "EUR") for text in ("125000", "€125,000.00", "125.000")]
    [True, True, True]
    >>> [is_amount(text, Decimal(125000), "EUR") for text in ("125,00", "$125,000", "12,5000")]
    [False, False, False]
    """
    number = _without_sign(_folded(typed), [_folded(sign) for sign in signs_of(currency)])
    return amount in _readings(number, get_currency_precision(currency))


def seems_confirmed(typed: str, word: str) -> bool:
    """True if the text can be a spelling of the word, for a surface that knows no more than it.

    ``is_confirmed`` is what counts.
    """
    digits, shown = _digits(_folded(typed)), _folded(word)
    is_like_it = digits in {_digits(shown), _digits(shown.rpartition(".")[0])}
    return is_word(typed, word) or (bool(digits) and is_like_it)


def _digits(text: str) -> str:
    return re.sub(r"\D", "", text)


def _folded(text: str) -> str:
    """Without spaces and case, with one kind of separator and of digits."""
    return "".join(unicodedata.normalize("NFKC", text).split()).translate(SEPARATORS).casefold()


def _without_sign(text: str, signs: list[str]) -> str:
    for sign in sorted(signs, key=len, reverse=True):
        if text.startswith(sign) or text.endswith(sign):
            return text.removeprefix(sign) if text.startswith(sign) else text.removesuffix(sign)
    return text


def signs_of(currency: str) -> list[str]:
    """The accepted notations of the currency beside an amount: its code and its signs."""
    of_language = (get_language() or "en").replace("-", "_")
    locales = ("en", of_language, str(reader_locale()), "en_AU")
    symbols = [get_currency_symbol(currency, locale=locale) for locale in locales]
    return list(dict.fromkeys([currency, *symbols]))


def _readings(text: str, precision: int) -> set[Decimal]:
    """The number that the text says; of two readings the one as it is written in English."""
    if text.isdecimal():
        return {Decimal(text)}
    if whole := GROUPED.fullmatch(text):
        # With three decimals "12.345" could be either; what is shown has a point before them.
        if precision == 3 and whole[0].count(".") == 1:
            return {Decimal(text)}
        return {Decimal(re.sub(r"[.,]", "", text))}
    whole_part, _, decimals = text.replace(",", ".").rpartition(".")
    separator, whole_part = text[len(whole_part) :][:1], text[: len(whole_part)]
    grouped = GROUPED.fullmatch(whole_part)
    is_whole = whole_part.isdecimal() or (grouped is not None and (grouped[1] or ",") != separator)
    if not is_whole or not decimals.isdecimal() or len(decimals) > max(precision, 2):
        return set()
    return {Decimal(f"{re.sub(r'[.,]', '', whole_part)}.{decimals}")}
