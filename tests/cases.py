"""Many cases in one test: all are tried, and each failure keeps its name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest


class Failures:
    """What came of the cases that failed; false where none did."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        try:
            yield
        except (Exception, pytest.fail.Exception) as failure:
            self._lines.append(f"{name}: {failure!r}")

    def __bool__(self) -> bool:
        return bool(self._lines)

    def __repr__(self) -> str:
        return "\n".join(self._lines)
