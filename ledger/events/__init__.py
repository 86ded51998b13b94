"""The event chain: appending sealed events, the outbox, and the doorbell after commit."""

from __future__ import annotations

from ledger.events.account_changes import (
    chain_of,
    command_principal,
    edits_between,
    lock_chain,
    record_change,
    sealable,
)
from ledger.events.chains import append_event
from ledger.events.change_kinds import CHANGE_DESCRIPTIONS, ChangeKind, describe_changes
from ledger.events.erasures import (
    ERASED,
    SealedContent,
    content_faults,
    erasure_in,
    former_digests,
    has_legal_hold,
    order_faults,
    reason_faults,
    sealed_content_faults,
)
from ledger.events.settled import last_settled_event

__all__ = [
    "CHANGE_DESCRIPTIONS",
    "ERASED",
    "ChangeKind",
    "SealedContent",
    "append_event",
    "chain_of",
    "command_principal",
    "content_faults",
    "describe_changes",
    "edits_between",
    "erasure_in",
    "former_digests",
    "has_legal_hold",
    "last_settled_event",
    "lock_chain",
    "order_faults",
    "reason_faults",
    "record_change",
    "sealable",
    "sealed_content_faults",
]
