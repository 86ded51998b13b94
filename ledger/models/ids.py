"""Ids of rows: new ones, and those that clients send."""

from __future__ import annotations

from uuid import UUID

from uuid_utils.compat import uuid7


def new_id() -> UUID:
    """A time-ordered UUID (RFC 9562, version 7): newer rows have larger ids."""
    return uuid7()


def id_or_none(text: object) -> UUID | None:
    """Parse an id that a client sent; ``None`` for text that is no UUID."""
    try:
        return UUID(str(text))
    except ValueError:
        return None
