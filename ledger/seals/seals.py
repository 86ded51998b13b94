"""The hashes of the audit log, byte for byte: of events, and of the columns of rows. Pure.

docs/audit.md describes each format so that others can compute the same hashes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from functools import cached_property
from operator import attrgetter
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import UUID

from ledger.seals.intents import canonical_as_stored

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)  # noqa: UP017
MICROSECOND = timedelta(microseconds=1)

# Columns of a transaction as prepared, in the order in which their seal reads them.
FIXED = (
    "id",
    "tenant",
    "proposed_by",
    "proposed_by_name",
    "stated_reason",
    "run_id",
    "step_id",
    "trace_id",
    "traceparent",
    "tool",
    "owner_service",
    "risk_level",
    "required_approver",
    "consequence_level",
    "quorum",
    "payload",
    "arguments",
    "input_hash",
    "operation_key",
    "action_summary",
    "warnings",
    "amount",
    "currency",
    "held",
    "hold_expires_at",
    "intent_digest",
    "created_at",
    "expires_at",
    "retain_until",
    "tool_version",  # left out where it is empty: rows from before it have no seal of it
)
_FIXED_OF = attrgetter(*FIXED)
# Left out where rules made terms: those have a seal of their own, and may become stricter.
OF_TERMS = frozenset({"required_approver", "quorum"})
AS_JSON = frozenset({"payload", "arguments", "warnings", "held", "result", "settlement", "terms"})
# The values that an erasure leaves in the columns with content.
EMPTY: dict[str, Any] = {
    "stated_reason": "",
    "payload": {},
    "arguments": {},
    "action_summary": "",
    "warnings": [],
    "held": {},
    "result": None,
    "ending_reason": "",
}
# In the first event of what needs several approvers: settling it takes two operators as well.
SETTLED_BY_TWO = "settled_by_two"
# In the first event of what the keeper of the proposing agent may sign off.
KEEPER_MAY_SIGN = "keeper_may_sign"
# In the events of decisions and of operators' orders: who has kept the proposing agent.
PROPOSER_KEPT_BY = "proposer_kept_by"
# In the first event of what a supervisor approves by one policy document alone: its hash.
REQUIRED_POLICY = "required_policy"
# In the first event of what has evidence: the SHA-256 of each; names and types are in the intent.
EVIDENCE = "evidence"
# In the first event of what was proposed anew after it had been sent back: which one that was.
REPLACES = "replaces"
# Sealed by the digest of their text, so that the seal outlives the text.
BY_DIGEST = frozenset(EMPTY) | {"settlement"}
_DIGEST_OF_NOTHING = hashlib.sha256(b"").hexdigest()
_DIGEST_OF_NULL = hashlib.sha256(b"null").hexdigest()
# Columns that moves write, with their first values. The event of the move seals the new value.
OUTCOME: dict[str, str] = {
    "decided_at": "",
    "ended_at": "",
    "receipt": "",
    "receipt_url": "",
    "result": _DIGEST_OF_NULL,
    "ending": "",
    "ending_reason": "",
    "compensation_receipt": "",
    "late_receipt": "",
    "settlement": _DIGEST_OF_NULL,
    "terms": "null",
    "legal_hold_at": "",
    "content_erased_at": "",
}
# Sealed as prepared; where an event moved it, as the last of those sealed it.
DEADLINE = "expires_at"
_MOVED_LATER = (*OUTCOME, DEADLINE)
# Columns that decide when a worker acts or how a text is translated, never what is done.
UNSEALED = frozenset(
    {
        "lease_expires_at",
        "fencing_token",
        "attempts",
        "next_attempt_at",
        "error",
        "error_detail",
        # Texts come from them where they make exactly the sealed text, and else are not believed.
        "error_source",
        "ending_reason_source",
        # Derived from the arguments by the contract of that time, or checked against the events.
        "touches",
        "planned_at",
        "true_until",
        "asked_at",
        "revision",
        "replaces",
    }
)


# The fields that the hash of an event is over, in this order.
_SEALED_OF = attrgetter(
    "previous_hash",
    "subject",
    "seq",
    "tenant",
    "kind",
    "from_state",
    "to_state",
    "principal",
    "principal_name",
    "via",
    "reason_digest",
    "details",
    "at",
)


class _Columns(NamedTuple):
    id: int
    subject: UUID
    transaction_id: UUID | None
    seq: int
    tenant: str
    kind: str
    from_state: str
    to_state: str
    principal: str
    principal_name: str
    via: str
    reason: str
    reason_digest: str
    details: str
    at: datetime
    previous_hash: str
    hash: str


class Link(_Columns):
    """One event: the columns that its hash and its position in the chain are computed from."""

    @cached_property
    def says(self) -> dict[str, Any]:
        """The details; empty when they are not a JSON object."""
        try:
            details = json.loads(self.details)
        except ValueError:
            return {}
        return details if isinstance(details, dict) else {}


def hash_of(event: Any) -> str:
    """SHA-256 over the netstrings of an event's fields, the hash before it being the first."""
    before, subject, seq, *texts, at = _SEALED_OF(event)
    return _sha256([before, str(subject), str(seq), *texts, as_text(at)])


def row_digest(
    row: Any,
    former: Mapping[str, str] = MappingProxyType({}),
    first: Mapping[str, Any] = MappingProxyType({}),
    deadline: str | None = None,
) -> str:
    """SHA-256 over the netstrings of the columns of a transaction as it was prepared.

    Columns with content are hashed by their digest. ``former`` has the digests of those that were
    erased since, ``first`` are the details of the first event, where that is written already, and
    ``deadline`` is the first one where it was moved since.
    """
    values = [
        (name, value if deadline is None or name != DEADLINE else deadline)
        for name, value in zip(FIXED, _FIXED_OF(row), strict=True)
        if not (value is None and name == "tool_version")
    ]
    if row.terms is not None:
        values = [*_without_terms(values, first)]
    return _sha256(
        [
            former.get(name) or digest_of_text(column_text(name, value))
            if name in EMPTY
            else (value if type(value) is str else column_text(name, value))
            for name, value in values
        ]
    )


def _without_terms(
    values: Iterable[tuple[str, Any]], first: Mapping[str, Any]
) -> Iterator[tuple[str, Any]]:
    """Without what the terms say; if rules made terms only later, with what it was at first."""
    had_terms = not first or "terms" in first.get("sets", {})
    for name, value in values:
        if name not in OF_TERMS:
            yield name, value
        elif not had_terms:
            yield name, first.get(name)


def hold_of(row: Any) -> dict[str, str]:
    """The hold that another plan replaces, as its event seals it: so that the seal of the row from
    before can be computed again."""
    held = digest_of_text(column_text("held", row.held))
    return {"held": held, "hold_expires_at": as_text(row.hold_expires_at)}


def is_empty(name: str, value: Any) -> bool:
    """True if a column with content has the value that an erasure leaves."""
    return column_text(name, value) == column_text(name, EMPTY[name])


def digests_of(row: Any) -> dict[str, str]:
    """The digest of the text of each column with content, as the event of its erasure keeps it."""
    return {name: digest_of_text(column_text(name, getattr(row, name))) for name in EMPTY}


def first_details(row: Any) -> dict[str, Any]:
    """The details that the first event of a transaction seals."""
    return {
        "intent_digest": row.intent_digest,
        "quorum": row.quorum,
        "required_approver": row.required_approver,
        "input_hash": row.input_hash,
        "row_digest": row_digest(row),
        # For the verifiers: those of earlier versions were settled by one operator.
        **({SETTLED_BY_TWO: True} if row.quorum > 1 else {}),
        **({KEEPER_MAY_SIGN: True} if row.keeper_may_sign else {}),
        **({REQUIRED_POLICY: row.required_policy} if row.required_policy else {}),
        **({EVIDENCE: [each["sha256"] for each in row.evidence]} if row.evidence else {}),
        **({REPLACES: str(row.replaces)} if row.replaces else {}),
        "sets": {
            name: text for name, text in outcome_of(row, OUTCOME).items() if text != OUTCOME[name]
        },
    }


def outcome_of(row: Any, names: Iterable[str]) -> dict[str, str]:
    """The values of the named outcome columns, as text in the form in which they are sealed."""
    wanted = names if names is OUTCOME else frozenset(names)
    return {name: outcome_text(name, getattr(row, name)) for name in _MOVED_LATER if name in wanted}


def sealed_outcome(details: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The values that the outcome columns must have after events with these details."""
    outcome: dict[str, Any] = dict(OUTCOME)
    for event_details in details:
        sets = event_details.get("sets", {})
        outcome |= sets if isinstance(sets, dict) else {}
    return outcome


def outcome_text(name: str, value: Any) -> str:
    """An outcome column as ``sets`` has it: its digest where the column may hold content."""
    if value == "" and name not in AS_JSON:
        return ""
    text = column_text(name, value)
    return digest_of_text(text) if name in BY_DIGEST else text


def digest_of_text(text: str) -> str:
    """SHA-256 of a text, in hexadecimal."""
    return _DIGEST_OF_NOTHING if not text else hashlib.sha256(text.encode()).hexdigest()


def column_text(name: str, value: Any) -> str:
    return canonical_as_stored(value).decode() if name in AS_JSON else as_text(value)


def as_text(value: Any) -> str:
    """A value of a column as text: nothing is empty, times are microseconds since 1970."""
    if type(value) is str:
        return value
    if value is None:
        return ""
    if isinstance(value, datetime):
        return str(_microseconds(value))
    if isinstance(value, Decimal):
        return f"{value:.6f}"
    return str(value)


def _microseconds(at: datetime) -> int:
    aware = at if at.tzinfo else at.replace(tzinfo=timezone.utc)  # noqa: UP017
    return (aware - EPOCH) // MICROSECOND


def _sha256(fields: Sequence[str]) -> str:
    """A netstring is the length in bytes, a colon and the bytes; no two lists read alike."""
    text = "".join([f"{len(field)}:{field}" for field in fields])
    if text.isascii():  # so that characters are bytes
        return hashlib.sha256(text.encode()).hexdigest()
    parts = [field.encode() for field in fields]
    return hashlib.sha256(b"".join(b"%d:%b" % (len(raw), raw) for raw in parts)).hexdigest()
