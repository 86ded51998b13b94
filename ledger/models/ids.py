"""Ids of rows: new ones, and those in texts of clients."""

from __future__ import annotations

from uuid import UUID

from uuid_utils.compat import uuid7


def new_id() -> UUID:
    """Time-ordered (RFC 9562, version 7), so that newer rows have larger ids."""
    return uuid7()


def id_or_none(text: object) -> UUID | None:
    """The id that a text of a client names; ``None`` for text that is no UUID."""
    try:
        return UUID(str(text))
    except ValueError:
        return None
