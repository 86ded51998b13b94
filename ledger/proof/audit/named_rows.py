"""Rows of other tables that sealed events name by a digest or an id: the rest of the evidence.

A manifest is the one whose digest a transaction sealed, a policy document is the one that a
decision cited, a permit was redeemed as the event of its claim says, and the content of a
transaction's evidence has the SHA-256 that it sealed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ledger import seals
from ledger.errors import InvalidRequest
from ledger.models import Decision, PolicyDocument, ToolVersion
from ledger.proof.audit.histories import EvidenceRow, PermitRow
from ledger.seals import Link
from ledger.states import EventKind


def document_faults() -> Iterator[str]:
    """Faults of manifests and policy documents."""
    for version in ToolVersion.objects.order_by("pk").iterator():
        if _digest_of(version.manifest) != version.sha256:
            yield f"tool_version {version.sha256} is not the manifest of its hash."
    names = ("tenant", "sha256", "name", "version")
    kept = set(PolicyDocument.objects.values_list(*names))
    of_decision = ("transaction__tenant", *(f"policy__{name}" for name in names[1:]))
    cited = Decision.objects.filter(policy__isnull=False).values_list(*of_decision).distinct()
    for tenant, sha256, name, version in sorted(set(cited) - kept):
        yield f"policy {name} {version} ({sha256}) of {tenant} was cited, and is not kept."


def permit_faults(permits: Sequence[PermitRow], links: Sequence[Link]) -> Iterator[str]:
    """Faults of the permits of one transaction, against its events."""
    issued = [link for link in links if link.kind == EventKind.PERMIT_ISSUED]
    claimed = [link for link in links if link.kind == EventKind.CLAIMED]
    claims = {str(link.says.get("permit")): link.says for link in claimed}
    rows = {str(permit.jti): permit for permit in permits}
    for jti in sorted({str(link.says.get("permit")) for link in issued} ^ {*rows}):
        yield f"permit {jti}: its row or the event that issued it is missing."
    for jti, permit in rows.items():
        redeemed_by = permit.redeemed_by if permit.redeemed_at is not None else None
        if redeemed_by != claims.get(jti, {}).get("redeemed_by"):
            yield f"permit {jti} was not redeemed as its events say."


def evidence_faults(row: Any, stored: Sequence[EvidenceRow]) -> Iterator[str]:
    """Faults of the contents of a transaction's evidence, of which none stays after an erasure."""
    sealed = [(number, piece["sha256"]) for number, piece in enumerate(row.evidence or [], 1)]
    if [(piece.number, piece.sha256) for piece in stored] != sealed:
        yield f"transaction {row.id}: the content of its evidence is not what was sealed."


def _digest_of(manifest: object) -> str:
    try:
        return seals.digest_of(manifest)
    except InvalidRequest:
        return ""
