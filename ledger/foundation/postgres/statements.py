"""Hot UPDATEs that the ORM compiles once, and that are executed with other values each time.

Compiling a queryset costs more than PostgreSQL needs for the row. The rules stay where they are,
in the querysets: a statement is compiled from one that was built with markers in place of values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db import models
from psycopg.types.json import Jsonb

from ledger.foundation.postgres.updates import compile_update


@dataclass(frozen=True, slots=True)
class Statement:
    """SQL without RETURNING, its parameters, and at which positions each named value belongs."""

    sql: str
    parameters: tuple[Any, ...]
    positions: Mapping[str, tuple[int, ...]]

    def filled(self, values: Mapping[str, Any]) -> list[Any]:
        """The parameters with these values in place of the markers."""
        parameters = list(self.parameters)
        for name, positions in self.positions.items():
            for position in positions:
                parameters[position] = _like(parameters[position], values[name])
        return parameters


def compile_once(
    rows: models.QuerySet[Any], markers: Mapping[str, Any], **columns: Any
) -> Statement:
    """The UPDATE of ``rows``, in which each of ``markers`` stands for a value to be filled in.

    A marker must be of its value's type, and no other value of the statement may equal it.
    Raises ``ValueError`` if one does not occur at all.
    """
    sql, parameters = compile_update(rows, **columns)
    positions = {
        name: tuple(n for n, value in enumerate(parameters) if _is(value, marker))
        for name, marker in markers.items()
    }
    if missing := [name for name, places in positions.items() if not places]:
        raise ValueError(f"The statement has no place for {', '.join(missing)}.")
    return Statement(sql, tuple(parameters), positions)


def _is(parameter: Any, marker: Any) -> bool:
    plain = parameter.obj if isinstance(parameter, Jsonb) else parameter
    return isinstance(plain, type(marker)) and plain == marker


def _like(marker: Any, value: Any) -> Any:
    if isinstance(marker, Jsonb):
        return Jsonb(value, dumps=marker.dumps)
    return type(marker)(value) if isinstance(marker, int) else value  # psycopg's Int4 and the like
