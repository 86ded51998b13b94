"""The kinds of evidence, their limits, and what of them is sealed. No I/O.

Texts, tables and differences are stored as UTF-8: a text as it is, the others as JSON.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ledger.contracts.evidence.media_types import (
    EXTENSIONS,
    PDF,
    SIDE_MOST,
    is_drawable,
    media_type_of,
)
from ledger.errors import PlanFailed, Sentence
from ledger.foundation import characters

TEXT = "text/plain"
TABLE = "application/vnd.assent.table+json"
DIFFERENCE = "application/vnd.assent.difference+json"

PIECES_MOST = 8
BYTES_MOST = 1024 * 1024  # of one piece
BYTES_MOST_TOGETHER = 4 * BYTES_MOST
NAME_MAX = 120  # characters
TEXT_MAX = 100_000  # characters
LINES_MOST = 1_000  # of each text of a difference: it is compared for every reader
COLUMNS_MOST, ROWS_MOST = 20, 500


@dataclass(frozen=True, slots=True)
class Text:
    """A text, such as a letter; its line breaks are kept."""

    name: str
    text: str

    @property
    def media_type(self) -> str:
        return TEXT

    def content(self) -> bytes:
        return _plain(self.text).encode()

    def texts(self) -> Iterator[str]:
        yield _plain(self.text)

    def fault(self) -> str:
        return _too_long(self.text)


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells under headings. Cells are written as text."""

    name: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]

    @property
    def media_type(self) -> str:
        return TABLE

    def content(self) -> bytes:
        columns, *rows = self._cells()
        return _as_json({"columns": columns, "rows": rows})

    def texts(self) -> Iterator[str]:
        for row in self._cells():
            yield from row

    def fault(self) -> str:
        if not 0 < len(self.columns) <= COLUMNS_MOST or len(self.rows) > ROWS_MOST:
            return Sentence(
                "a table has 1 to {columns} columns and at most {rows} rows",
                columns=COLUMNS_MOST,
                rows=ROWS_MOST,
            )
        if any(len(row) != len(self.columns) for row in self.rows):
            return Sentence("its rows do not all have as many cells as there are columns")
        return ""

    def _cells(self) -> list[list[str]]:
        rows = [self.columns, *self.rows]
        return [[_plain("" if cell is None else str(cell)) for cell in row] for row in rows]


@dataclass(frozen=True, slots=True)
class Difference:
    """Two versions of a text, shown line by line with what was removed and added."""

    name: str
    before: str
    after: str

    @property
    def media_type(self) -> str:
        return DIFFERENCE

    def content(self) -> bytes:
        return _as_json({"before": _plain(self.before), "after": _plain(self.after)})

    def texts(self) -> Iterator[str]:
        yield _plain(self.before)
        yield _plain(self.after)

    def fault(self) -> str:
        if max(len(self.before.splitlines()), len(self.after.splitlines())) > LINES_MOST:
            return Sentence("each text of a difference has at most {most} lines", most=LINES_MOST)
        return _too_long(self.before) or _too_long(self.after)


@dataclass(frozen=True, slots=True)
class File:
    """A picture (PNG, JPEG, GIF, WebP) or a PDF."""

    name: str
    media_type: str
    data: bytes

    def content(self) -> bytes:
        return bytes(self.data)

    def texts(self) -> Iterator[str]:
        yield from ()

    def fault(self) -> str:
        by_bytes = media_type_of(self.data)
        if self.media_type not in EXTENSIONS:
            return Sentence("a file is a PNG, JPEG, GIF, WebP or PDF")
        if by_bytes != self.media_type:
            return Sentence("its bytes are not {media_type}", media_type=self.media_type)
        if by_bytes != PDF and not is_drawable(by_bytes, self.data):
            return Sentence(
                "its header names no size, or more than {most} pixels a side or 25 million",
                most=SIDE_MOST,
            )
        return ""


Evidence = Text | Table | Difference | File


def seal(pieces: Sequence[Evidence]) -> tuple[list[dict[str, str]], list[bytes]]:
    """The intent's part of them, and their contents in the same order.

    Raises ``PlanFailed`` for what is beyond a limit or not of the kind that it says.
    """
    if len(pieces) > PIECES_MOST:
        raise PlanFailed(
            Sentence("The plan has more than {most} pieces of evidence.", most=PIECES_MOST),
            hint=_hint(),
        )
    contents = [_checked(piece) for piece in pieces]
    if sum(map(len, contents)) > BYTES_MOST_TOGETHER:
        raise PlanFailed(
            Sentence("The evidence has more than {most} bytes together.", most=BYTES_MOST_TOGETHER),
            hint=_hint(),
        )
    sealed = [
        {
            "name": _plain(piece.name),
            "media_type": piece.media_type,
            "sha256": hashlib.sha256(content).hexdigest(),
        }
        for piece, content in zip(pieces, contents, strict=True)
    ]
    return sealed, contents


def _checked(piece: Evidence) -> bytes:
    name = str(piece.name)
    if not name.strip() or len(name) > NAME_MAX or "\n" in name:
        fault: str = Sentence("a name has 1 to {most} characters on one line", most=NAME_MAX)
    else:
        fault = piece.fault()
    content = b"" if fault else piece.content()
    if len(content) > BYTES_MOST:
        fault = Sentence("it has more than {most} bytes", most=BYTES_MOST)
    if fault:
        text = Sentence("The evidence “{name}” is refused: {fault}.", name=name[:60], fault=fault)
        raise PlanFailed(text, hint=_hint())
    return content


def _hint() -> str:
    return Sentence(
        "Nothing was prepared, and holds are released. The tool's author has to change what the "
        "plan carries (docs/tool-authors.md)."
    )


def _too_long(text: str) -> str:
    return (
        Sentence("a text has at most {most} characters", most=TEXT_MAX)
        if len(text) > TEXT_MAX
        else ""
    )


def _plain(text: str) -> str:
    """As it is shown and sealed: composed, and its lines end in one way."""
    return characters.normalised(text.replace("\r\n", "\n"))


def _as_json(value: dict[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()
