"""Server-sent events, read as the HTML standard says (§ 9.2.6), from pieces of any size."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

BOM = b"\xef\xbb\xbf"
LINE_END = re.compile(rb"\r\n|\r|\n")


@dataclass(frozen=True, slots=True)
class Event:
    data: str
    kind: str = "message"


class EventReader:
    """``last_id`` and ``retry_ms`` are what the stream has said last: for asking it again."""

    def __init__(self) -> None:
        self.last_id = ""
        self.retry_ms: int | None = None
        self._line = bytearray()
        self._is_first, self._was_cr = True, False
        self._data: list[str] = []
        self._kind = ""

    def read(self, piece: bytes) -> Iterator[Event]:
        """The events that end in this piece."""
        for line in self._lines(piece):
            if line:
                self._take(line)
            elif (event := self._ended()) is not None:
                yield event

    def _lines(self, piece: bytes) -> Iterator[str]:
        if self._was_cr and piece:
            piece = piece.removeprefix(b"\n")  # the rest of a CRLF that two pieces share
            self._was_cr = False
        if not piece:
            return
        self._was_cr = piece.endswith(b"\r")
        *ends, rest = LINE_END.split(piece)
        for end in ends:
            line = bytes(self._line) + end
            self._line.clear()
            if self._is_first:
                line, self._is_first = line.removeprefix(BOM), False
            yield line.decode("utf-8", "replace")
        self._line += rest

    def _take(self, line: str) -> None:
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match field:
            case "data":
                self._data.append(value)
            case "event":
                self._kind = value
            case "id" if "\0" not in value:
                self.last_id = value
            case "retry" if value.isascii() and value.isdigit():
                self.retry_ms = int(value[:9])

    def _ended(self) -> Event | None:
        """The event that an empty line ends; without a line of data there is none."""
        data, kind = self._data, self._kind
        self._data, self._kind = [], ""
        return Event("\n".join(data), kind or "message") if data else None
