"""The arguments as the item shows them: each once, with what planning changed or filled in.

Every value of ``labels.compared`` appears: that is what the person signs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from itertools import groupby

from babel.numbers import format_currency, get_currency_precision

from approvals.presentation.amounts import reader_locale
from approvals.presentation.labels import Field
from ledger.models import Transaction

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
