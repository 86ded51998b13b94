"""The evidence of a transaction as the desk shows it: read from what is stored, checked first."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import lru_cache
from typing import NamedTuple

from ledger.contracts.evidence import DIFFERENCE, PDF, TABLE, TEXT
from ledger.models import Transaction, contents_of

# Signs of the lines of a difference.
SAME, REMOVED, ADDED = " ", "−", "+"  # noqa: RUF001  (the minus sign is as wide as the plus)
AROUND = 2  # unchanged lines that a folded difference shows beside a changed one
ROWS_MOST, LINES_MOST, LINE_MOST = 10, 25, 300  # of a folded table or difference


class Line(NamedTuple):
    """One line of a difference."""

    sign: str
    text: str


@dataclass(frozen=True, slots=True)
class Piece:
    """One piece. ``text`` is all that a person reads of it; a file has none.

    ``kind`` is ``text``, ``table``, ``difference``, ``image``, ``pdf``, or ``changed`` where what
    is stored is not what was sealed: nothing of that is shown.
    """

    number: int
    name: str
    kind: str
    sha256: str
    size: int = 0
    text: str = ""
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    lines: tuple[Line, ...] = ()
    is_cut: bool = False


def pieces_of(row: Transaction) -> list[Piece]:
    """In the order of the plan."""
    return [
        _piece(number, sealed, content)
        for number, (sealed, content) in enumerate(
            zip(row.evidence or [], contents_of(row), strict=True), 1
        )
    ]


def names_of_pdfs(row: Transaction) -> list[str]:
    """No page of ours can show these: a person opens each apart."""
    return [sealed["name"] for sealed in row.evidence or [] if sealed["media_type"] == PDF]


def folded_piece(piece: Piece) -> Piece:
    """The first rows of a table; of a difference what was changed and the lines around it."""
    rows = tuple(tuple(_cut(cell) for cell in row) for row in piece.rows[:ROWS_MOST])
    near = tuple(line for number, line in enumerate(piece.lines) if _is_near(piece.lines, number))
    lines = tuple(Line(line.sign, _cut(line.text)) for line in near[:LINES_MOST])
    return replace(piece, rows=rows, lines=lines, is_cut=True)


def _is_near(lines: Sequence[Line], number: int) -> bool:
    around = lines[max(0, number - AROUND) : number + AROUND + 1]
    return any(line.sign != SAME for line in around)


def _cut(text: str) -> str:
    return text if len(text) <= LINE_MOST else f"{text[:LINE_MOST]}…"


def _piece(number: int, sealed: dict[str, str], content: bytes | None) -> Piece:
    media_type = sealed["media_type"]
    kind = {TEXT: "text", TABLE: "table", DIFFERENCE: "difference", PDF: "pdf"}.get(
        media_type, "image"
    )
    piece = Piece(number, sealed["name"], kind, sealed["sha256"], len(content or b""))
    if content is None:
        return replace(piece, kind="changed")
    if kind == "text":
        return replace(piece, text=content.decode())
    if kind == "table":
        table = json.loads(content)
        columns, rows = tuple(table["columns"]), tuple(map(tuple, table["rows"]))
        text = "\n".join("\t".join(row) for row in (columns, *rows))
        return replace(piece, text=text, columns=columns, rows=rows)
    if kind == "difference":
        lines = compared(**json.loads(content))
        return replace(piece, text="\n".join(map("".join, lines)), lines=lines)
    return piece


@lru_cache(maxsize=32)
def compared(before: str, after: str) -> tuple[Line, ...]:
    """Line by line; what was removed stands above what came in its place."""
    return tuple(_lines(before.split("\n"), after.split("\n")))


def _lines(before: list[str], after: list[str]) -> Iterator[Line]:
    matcher = SequenceMatcher(None, before, after)
    for tag, first, last, other_first, other_last in matcher.get_opcodes():
        if tag == "equal":
            yield from (Line(SAME, line) for line in before[first:last])
        else:
            yield from (Line(REMOVED, line) for line in before[first:last])
            yield from (Line(ADDED, line) for line in after[other_first:other_last])
