"""The ledger as JSON lines, for verifiers that are not ours. docs/audit.md has the format.

Nothing is judged here: what is in the tables is written down, broken or not.
"""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from django.db.models import Model

from ledger import seals
from ledger.models import Budget, Evidence, Grant, PolicyDocument, ToolVersion
from ledger.models.events import Checkpoint, Cosignature, Tile
from ledger.proof.audit import histories, rights
from ledger.proof.audit.histories import EvidenceRow, History
from ledger.proof.log import checkpoints

VERSION = 2
AS_JSON = seals.AS_JSON | {"policy", "roles", seals.EVIDENCE, "when", "budgets", "names", "content"}


def export_lines() -> Iterator[str]:
    """One JSON object a line, of one instant: what comes of each subject, then the log."""
    counts: Counter[str] = Counter()
    with histories.snapshot():
        yield _line(
            {
                "type": "ledger",
                "version": VERSION,
                "public_keys": sorted(checkpoints.own_public_keys()),
            }
        )
        for record in _records():
            counts[record["type"]] += 1
            yield _line(record)
        yield _line({"type": "end", "counts": dict(counts)})


def _records() -> Iterator[dict[str, Any]]:
    for history in histories.read():
        yield from _records_of(history)
    for version in ToolVersion.objects.select_related("tenant").order_by("pk").iterator():
        fields = _fields(version, "name", "sha256", "manifest")
        yield {"type": "tool_version", "tenant": version.tenant.slug, **fields}
    for document in PolicyDocument.objects.order_by("pk").iterator():
        fields = _fields(document, "tenant", "name", "version", "sha256", "text")
        yield {"type": "policy_document", **fields}
    for budget in Budget.objects.order_by("pk").iterator():
        yield _row("budget", budget)
    for grant in Grant.objects.order_by("pk").iterator():
        yield _row("grant", grant)
    for account in rights.accounts():
        yield _record("account", account)
    for point in Checkpoint.objects.order_by("size").iterator():
        fields = _fields(point, "id", "size", "upto_event", "root", "note", "public_key")
        yield {"type": "checkpoint", **fields}
    for tile in Tile.objects.order_by("level", "index").iterator():
        hashes = bytes(tile.hashes).hex()
        yield {"type": "tile", "level": tile.level, "index": tile.index, "hashes": hashes}
    for row in Cosignature.objects.select_related("checkpoint").order_by("pk").iterator():
        size = row.checkpoint.size
        yield {"type": "cosignature", "size": size, "witness": row.witness, "line": row.line}


def _row(kind: str, row: Model) -> dict[str, Any]:
    names = [field.attname for field in row._meta.concrete_fields]
    return {"type": kind} | {name: _plain(name, getattr(row, name)) for name in names}


def _fields(row: Any, *names: str) -> dict[str, Any]:
    return {name: getattr(row, name) for name in names}


def _records_of(history: History) -> Iterator[dict[str, Any]]:
    for name, row in history.rows.items():
        yield _record(name, row)
    if history.contents:
        yield {"type": "contents", "id": str(history.subject), "digests": history.contents}
    for vote in history.votes:
        yield _record("decision", vote)
    for permit in history.permits:
        yield _record("permit", permit)
    for charge in history.charges:
        yield _record("charge", charge)
    for revision in history.revisions:
        yield _record("revision", revision)
    for piece in history.evidence:
        yield _with_content(piece)
    for link in history.links:
        yield _record("event", link)


def _with_content(piece: EvidenceRow) -> dict[str, Any]:
    """One at a time: they are large."""
    key = {name: getattr(piece, name) for name in ("transaction_id", "revision", "number")}
    content = Evidence.objects.values_list("content", flat=True).get(**key)
    record = {"type": "evidence", **key, "transaction_id": str(piece.transaction_id)}
    return {**record, "content": base64.b64encode(content).decode()}


def _record(kind: str, row: Any) -> dict[str, Any]:
    return {"type": kind} | {name: _plain(name, getattr(row, name)) for name in row._fields}


def _plain(column: str, value: Any) -> Any:
    """JSON stays JSON, numbers stay numbers, everything else is text as it is sealed."""
    if value is None or isinstance(value, int) or column in AS_JSON:
        return value
    return seals.as_text(value)


def _line(record: dict[str, Any]) -> str:
    return json.dumps(record, ensure_ascii=False, separators=(",", ":"))
