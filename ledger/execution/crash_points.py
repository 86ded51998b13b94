"""Named lines at which the test suite may stop, raise or kill a worker. In production: nothing."""

from __future__ import annotations

from collections.abc import Callable


def _go_on(name: str) -> None:
    """Nobody is testing."""


hook: Callable[[str], None] = _go_on


def reach(name: str) -> None:
    hook(name)
