"""Rows of other tables that sealed events name by a digest or an id: the rest of the evidence.

A manifest is the one whose digest a transaction sealed, a policy document is the one that a
decision cited, a permit was redeemed as the event of its claim says, what a transaction replaces
was sent back, and the content of its evidence has the SHA-256 that it sealed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from django.db.models import Exists, OuterRef

from ledger import seals
from ledger.errors import InvalidRequest
from ledger.events import erasure_in
from ledger.models import Decision, Ending, PolicyDocument, ToolVersion, Transaction
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


def evidence_faults(stored: Sequence[EvidenceRow], links: Sequence[Link]) -> Iterator[str]:
    """Faults of the contents of a transaction's evidence, of which none stays after an erasure.

    Each revision has its own.
    """
    planned = [link for link in links if link is links[0] or link.kind == EventKind.REVISED]
    sealed = [
        (revision, number, sha256)
        for revision, link in enumerate(planned, 1)
        for number, sha256 in enumerate(link.says.get(seals.EVIDENCE, ()), 1)
        if erasure_in(links) is None
    ]
    if [(piece.revision, piece.number, piece.sha256) for piece in stored] != sealed:
        yield f"transaction {links[0].subject}: the content of its evidence is not what was sealed."


def replacement_faults() -> Iterator[str]:
    """Faults of what was proposed anew, although nothing had been sent back to its agent."""
    same = {name: OuterRef(name) for name in ("tenant", "proposed_by", "tool")}
    sent_back = Transaction.objects.filter(pk=OuterRef("replaces"), ending=Ending.SENT_BACK, **same)
    rows = Transaction.objects.filter(~Exists(sent_back), replaces__isnull=False)
    for pk in rows.order_by("pk").values_list("pk", flat=True).iterator():
        yield f"transaction {pk}: what it replaces was not sent back to its agent."


def _digest_of(manifest: object) -> str:
    try:
        return seals.digest_of(manifest)
    except InvalidRequest:
        return ""
