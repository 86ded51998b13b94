"""Contents of revisions, and the differences between two of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from types import SimpleNamespace
from typing import Any, NamedTuple

from ledger import seals
from ledger.models import Revision

# The columns of the intent that a plan fills: a revision may change them, and no other.
CONTENT = (
    "arguments",
    "action_summary",
    "warnings",
    "amount",
    "currency",
    "risk_level",
    "evidence",
)


class Change(NamedTuple):
    """One value that a revision changed: ``arguments.amount``, from what and to what."""

    path: str
    before: Any
    after: Any

    def as_json(self) -> dict[str, Any]:
        return {"path": self.path, "from": self.before, "to": self.after}


def content_of(row: Any) -> dict[str, Any]:
    """The columns that a revision may change, as JSON."""
    content = {name: getattr(row, name) for name in CONTENT}
    return {**content, "amount": None if row.amount is None else f"{row.amount:f}"}


def with_content(row: Any, content: Mapping[str, Any]) -> Any:
    """A transaction as one of its revisions was; only its intent and its facts can be read."""
    amount = content["amount"]
    return SimpleNamespace(
        id=row.id,
        tenant=row.tenant,
        tool=row.tool,
        tool_version=row.tool_version,
        proposed_by=row.proposed_by,
        consequence_level=row.consequence_level,
        operation_key=row.operation_key,
        **{**content, "amount": None if amount is None else Decimal(amount)},
    )


def as_proposed(row: Any) -> Any:
    """The first revision of the transaction; the row itself if there is no other."""
    if row.revision == 1:
        return row
    first = Revision.objects.filter(transaction=row.id, number=1).first()
    return with_content(row, first.content) if first is not None and first.content else row


def changes_of(row: Any) -> list[Change]:
    """The differences from what its agent proposed."""
    if row.revision == 1:
        return []
    return [*changes_between(content_of(as_proposed(row)), content_of(row))]


def changes_by(row: Any, number: int) -> list[Change]:
    """The differences that one revision made; none where a content is erased."""
    rows = Revision.objects.filter(transaction=row.pk, number__in=[number - 1, number])
    contents = dict(rows.values_list("number", "content"))
    before, after = (
        contents.get(each) or (content_of(row) if each == row.revision else {})
        for each in (number - 1, number)
    )
    return [*changes_between(before, after)] if before and after else []


def changes_between(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Change]:
    """Arguments first, then what the plan made of them."""
    yield from _changes(before.get("arguments"), after.get("arguments"), "arguments")
    if before.get("action_summary") != after.get("action_summary"):
        yield Change("action_summary", before.get("action_summary"), after.get("action_summary"))
    impacts = [_impact(each) for each in (before, after)]
    if impacts[0] != impacts[1]:
        yield Change("financial_impact", *impacts)
    for name in ("warnings", "risk_level", "evidence"):
        if before.get(name) != after.get(name):
            yield Change(name, before.get(name), after.get(name))


def _impact(content: Mapping[str, Any]) -> dict[str, str] | None:
    amount = content.get("amount")
    return seals.financial_impact(
        None if amount is None else Decimal(amount), content.get("currency", "")
    )


def _changes(before: Any, after: Any, path: str) -> Iterator[Change]:
    if isinstance(before, dict) and isinstance(after, dict):
        for name in [*before, *(name for name in after if name not in before)]:
            yield from _changes(before.get(name), after.get(name), f"{path}.{name}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from _changes(old, new, f"{path}[{number}]")
    elif before != after or type(before) is not type(after):
        yield Change(path, before, after)
