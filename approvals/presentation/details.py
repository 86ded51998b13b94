"""The arguments as the item shows them: each once, with what planning changed or filled in.

Every value of ``labels.compared`` appears: that is what the person signs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from itertools import groupby
from typing import Any

from babel.numbers import format_currency, get_currency_precision
from django.utils.translation import gettext as _

from approvals.presentation.amounts import amount_written, reader_locale
from approvals.presentation.labels import Field, read, risk_words
from ledger.models import Transaction
from ledger.sign_off.revisions import Change

# Arguments of these names are amounts of money in the currency of the transaction.
MONEY = re.compile(r"(^|_)(amount|price|total|fare|fee|cost|limit)$")
CELL = re.compile(r"\[(?P<row>\d+)\]\.(?P<column>[^.\[\]]+)")
COLUMNS_MOST = 5


@dataclass(frozen=True, slots=True)
class Value:
    """One value. ``name`` is its path within the argument; empty for the argument itself."""

    name: str
    field: Field
    currency: str = ""

    @property
    def money(self) -> str:
        """The validated value with its currency, if it is money and that shows it exactly."""
        try:
            number = Decimal(str(self.field.validated))
        except InvalidOperation:
            return ""
        if not self.currency or not number.is_finite():
            return ""
        if round(number, get_currency_precision(self.currency)) != number:
            return ""
        return format_currency(number, self.currency, locale=reader_locale())


@dataclass(frozen=True, slots=True)
class Detail:
    """One argument: a value, rows of values, or a small table (``columns`` and ``cells``)."""

    name: str
    values: list[Value]
    columns: list[str] = field(default_factory=list)
    cells: list[list[Value]] = field(default_factory=list)

    @property
    def is_changed(self) -> bool:
        return any(each.field.is_changed or not each.field.is_validated for each in self.values)

    @property
    def is_single(self) -> bool:
        return len(self.values) == 1 and not self.values[0].name


def details_of(row: Transaction, fields: Iterable[Field]) -> list[Detail]:
    """The fields, those of one argument together."""
    currency = _currency(row)
    return [
        _detail(top, [_value(top, each, currency) for each in group])
        for top, group in groupby(fields, key=lambda each: each.top)
    ]


def _currency(row: Transaction) -> str:
    """The currency of amounts among the arguments; empty where they name another."""
    named = [value for name, value in row.arguments.items() if "currency" in name.casefold()]
    return row.currency if all(value in {row.currency, "", None} for value in named) else ""


def _value(top: str, each: Field, currency: str) -> Value:
    name = each.name.removeprefix(top).removeprefix(".") if each.name != top else ""
    last = re.split(r"[.\[]", each.name)[-1].casefold()
    return Value(name, each, currency if MONEY.search(last) else "")


def _detail(top: str, values: list[Value]) -> Detail:
    cells = [CELL.fullmatch(value.name) for value in values]
    if not all(cells):
        return Detail(top, values)
    columns = list(dict.fromkeys(cell["column"] for cell in cells if cell))
    rows = [
        [value for value, _cell in group]
        for _, group in groupby(
            zip(values, cells, strict=True), key=lambda pair: pair[1] and pair[1]["row"]
        )
    ]
    is_regular = all([_column(value) for value in each] == columns for each in rows)
    if len(columns) > COLUMNS_MOST or not is_regular or any(_differs(value) for value in values):
        return Detail(top, values)
    return Detail(top, values, columns, rows)


def _column(value: Value) -> str:
    return value.name.rpartition(".")[2]


def _differs(value: Value) -> bool:
    each = value.field
    return each.is_changed or not each.is_requested or not each.is_validated


# --- what was changed ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Difference:
    """One value that was changed, as text: its former one, and the one that it has since."""

    name: str
    before: str
    after: str


def differences_in(changes: Iterable[Change]) -> list[Difference]:
    """These changes as people see them. An argument that is the amount stands for it."""
    changes = list(changes)
    money = next((each for each in changes if each.path == "financial_impact"), None)
    amount = next((each for each in changes if money and _is_the_amount(each, money)), None)
    if money is None or amount is None:
        return [_difference(each) for each in changes]
    name = amount.path.removeprefix(_ARGUMENT)
    as_money = Difference(name, _money(money.before), _money(money.after))
    return [
        as_money if each is amount else _difference(each) for each in changes if each is not money
    ]


_ARGUMENT = "arguments."


def _difference(change: Change) -> Difference:
    match change.path:
        case "action_summary":
            return Difference(_("What happens"), *_apart(change.before, change.after))
        case "financial_impact":
            return Difference(_("Amount"), _money(change.before), _money(change.after))
        case "warnings":
            return Difference(_("Warnings"), *("\n".join(each) or _("none") for each in change[1:]))
        case "risk_level":
            return Difference(_("Risk"), *(risk_words(each) for each in change[1:]))
        case "evidence":
            return Difference(_("Evidence"), *(_names(each) for each in change[1:]))
    texts = (_text(each) for each in change[1:])
    return Difference(change.path.removeprefix(_ARGUMENT), *_apart(*texts))


def _is_the_amount(change: Change, money: Change) -> bool:
    """True for an argument that has exactly these two amounts."""
    pairs = ((change.before, money.before), (change.after, money.after))
    try:
        return change.path.startswith(_ARGUMENT) and all(
            impact is not None and Decimal(str(value)) == Decimal(impact["amount"])
            for value, impact in pairs
        )
    except InvalidOperation:
        return False


def _money(impact: dict[str, str] | None) -> str:
    if impact is None:
        return _("none")
    return amount_written(Decimal(impact["amount"]), impact["currency"])


def _names(pieces: list[dict[str, str]]) -> str:
    """The names of the evidence, each with the beginning of its digest: it may be all that is
    different."""
    names = [f"{each.get('name', '')} ({each.get('sha256', '')[:8]})" for each in pieces or ()]
    return "\n".join(names) or _("none")


def _text(value: Any) -> str:
    if value and isinstance(value, list) and all(isinstance(each, str) for each in value):
        return "\n".join(value)
    return _("empty") if value in (None, "", [], {}) else read(value)


LONG = 200  # characters, of a text that is shown in the difference as far as it is different
AROUND = 60


def _apart(before: str, after: str) -> tuple[str, str]:
    """Two long texts without most of what is the same at their beginning and their end."""
    if min(len(before), len(after)) < LONG:
        return before, after
    start = _same(before, after)
    end = _same(before[start:][::-1], after[start:][::-1])
    start, end = max(0, start - AROUND), max(0, end - AROUND)
    return _cut(before, start, end), _cut(after, start, end)


def _same(before: str, after: str) -> int:
    """The number of characters at the beginning that are the same."""
    pairs = enumerate(zip(before, after, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(before), len(after)))


def _cut(text: str, start: int, end: int) -> str:
    return ("…" if start else "") + text[start : len(text) - end] + ("…" if end else "")
