"""The columns of a transaction that say which worker has it and when it is next due."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import Enum
from typing import Any

from django.db.models import F
from django.db.models.expressions import Combinable


class Unchanged(Enum):
    """A column that keeps its value."""

    UNCHANGED = "unchanged"


UNCHANGED = Unchanged.UNCHANGED


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkColumns:
    """New values for one UPDATE; expressions are evaluated by the database."""

    fencing_token: Combinable | Unchanged = UNCHANGED
    attempts: int | Combinable | Unchanged = UNCHANGED
    lease_expires_at: Combinable | Unchanged | None = UNCHANGED
    next_attempt_at: Combinable | Unchanged | None = UNCHANGED

    def values(self) -> dict[str, Any]:
        """The columns that change, as ``QuerySet.update()`` takes them."""
        columns = {column.name: getattr(self, column.name) for column in fields(self)}
        return {name: value for name, value in columns.items() if value is not UNCHANGED}


# No worker has it and nothing is scheduled.
RELEASED = WorkColumns(lease_expires_at=None, next_attempt_at=None)
# The same, where a new kind of work begins: attempts are counted anew.
FRESH = WorkColumns(attempts=0, lease_expires_at=None, next_attempt_at=None)
# Taken from the worker that had it: with an older fencing token its writes match no row.
REVOKED = WorkColumns(
    fencing_token=F("fencing_token") + 1, lease_expires_at=None, next_attempt_at=None
)
