"""Changes of skills, as the audit log seals them."""

from __future__ import annotations

from typing import Any

from a2a.models import Skill
from ledger.events import ChangeKind, record_change
from ledger.principals import Principal, Surface


def record(
    row: Skill, kind: ChangeKind, edits: dict[str, list[Any]], *, by: Principal, via: Surface
) -> None:
    """Append what was done to the skill, in the database transaction that does it."""
    record_change(
        f"skill:{row.agent.principal.id}/{row.slug}",
        kind,
        tenant=row.tenant,
        by=by,
        via=via,
        name=str(row)[:200],
        details={"edits": edits},
    )
