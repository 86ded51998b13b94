"""The names that log lines of one request or job have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

_names: ContextVar[dict[str, str]] = ContextVar("log_context")


@contextmanager
def about(**names: object) -> Iterator[Mapping[str, str]]:
    """Lines of this block have these names, and those that ``note`` adds.

    So have those of a lane's threads that work for it.
    """
    own = {**current(), **_as_texts(names)}
    token = _names.set(own)
    try:
        yield own
    finally:
        _names.reset(token)


def note(**names: object) -> None:
    """Add to what the block is about, for its caller as well. Nothing outside of one."""
    if (own := _names.get(None)) is not None:
        own.update(_as_texts(names))


def current() -> Mapping[str, str]:
    return _names.get(None) or {}


def _as_texts(names: Mapping[str, object]) -> dict[str, str]:
    return {name: str(value) for name, value in names.items() if value}
