"""Charts that the server draws: bars over a scale, and the table that they stand for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from approvals.presentation import number_written

WIDTH, HEIGHT = 720, 160


class Cell(NamedTuple):
    """A value as a file has it, and as a page shows it."""

    value: Any
    shown: str
    is_number: bool = False


class Column(NamedTuple):
    """The name of a column in files, and its title on the page."""

    name: str
    title: str
    is_number: bool = True


class Series(NamedTuple):
    """One colour of a chart: its title, and its name in the style sheet."""

    title: str
    tone: str
    total: str = ""


class Bar(NamedTuple):
    x: float
    y: float
    width: float
    height: float
    tone: str
    says: str  # on hover


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart with its words. ``bars`` are in units of ``WIDTH`` and ``HEIGHT``."""

    name: str
    title: str
    says: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    series: Sequence[Series] = ()
    bars: Sequence[Bar] = ()
    most: str = ""  # the end of the scale
    places: Sequence[str] = ()  # below the bars, evenly spread
    shares: Sequence[Sequence[Bar]] = field(default_factory=list)  # one strip for each row

    @property
    def has_strips(self) -> bool:
        return bool(self.shares)

    @property
    def lines(self) -> list[tuple[Sequence[Cell], Sequence[Bar]]]:
        """Each row with its strip, where there are strips."""
        strips = self.shares or [()] * len(self.rows)
        return list(zip(self.rows, strips, strict=True))


def plain(value: Any) -> Cell:
    if isinstance(value, int):
        return Cell(value, grouped(value), is_number=True)
    return Cell(value, str(value))


def grouped(number: int) -> str:
    """With the separators of the reader: ``119,671``."""
    return number_written(number)


def stacked(columns: Sequence[Sequence[tuple[float, str, str]]], most: float) -> list[Bar]:
    """Bars beside each other; each is a stack of (value, tone, what it says), from below."""
    step = WIDTH / max(len(columns), 1)
    width = max(step - max(step * 0.2, 1), 1)
    bars = []
    for place, parts in enumerate(columns):
        top = float(HEIGHT)
        for value, tone, says in parts:
            height = HEIGHT * value / most if most else 0.0
            top -= height
            if height:
                bars.append(_bar(place * step, top, width, height, tone, says))
    return bars


def side_by_side(columns: Sequence[Sequence[tuple[float, str, str]]], most: float) -> list[Bar]:
    """As ``stacked``, but each value stands before the one that follows it."""
    step = WIDTH / max(len(columns), 1)
    bars = []
    for place, parts in enumerate(columns):
        for depth, (value, tone, says) in enumerate(parts):
            inset = step * (0.1 + 0.15 * depth)
            height = HEIGHT * value / most if most else 0.0
            if height:
                at = place * step + inset
                bars.append(_bar(at, HEIGHT - height, step - 2 * inset, height, tone, says))
    return bars


def strip(parts: Sequence[tuple[float, str, str]], most: float) -> list[Bar]:
    """One bar that lies: parts from left to right, 100 wide and 10 high at most."""
    bars, left = [], 0.0
    for value, tone, says in parts:
        width = 100 * value / most if most else 0.0
        if width:
            bars.append(_bar(left, 0, width, 10, tone, says))
        left += width
    return bars


def _bar(x: float, y: float, width: float, height: float, tone: str, says: str) -> Bar:
    return Bar(round(x, 2), round(y, 2), round(width, 2), round(height, 2), tone, says)
