"""Examples of the REST interface: for each operation a request and its answer.

They are made from the schemas, so that they have every field that a request must have, and values
that stand below. A test holds each against its schema.
"""

from __future__ import annotations

from typing import Any

from approvals.http.field_descriptions import Json, resolved
from ledger.states import State
from ledger.transactions import BY_STATE

TRANSACTION = "01a1fb78-53c5-70b5-af29-92d7960ba506"
PERMIT_ID = "01a1fb79-5d02-7a10-8c44-1f0e9b7a2c31"
PERMIT = "eyJhbGciOiJFZERTQSIsInR5cCI6InBlcm1pdCtqd3QifQ…"
TASK = "01a1fb78-9a10-7c02-b0de-5bb7c4c5f0a1"
DIGEST = "8f1c0a52d3b64e7791aa3c5e0f42b8d65e9c7b1a40d2f3386c1e5a7b9d0f2c48"
AT, LATER = "2026-11-22T09:30:00Z", "2026-11-22T09:45:00Z"
ARGUMENTS = {"payment_id": "pay_1042", "amount": "48.20", "reason": "damaged"}
TEXT = "Up to 50 euros are refunded without a return."
PENDING = {
    "kind": "pending",
    "is_final": False,
    "sentence": BY_STATE[State.PREPARED].sentence,
    "do_not_retry": True,
}

# The value of a field of this name, wherever it stands.
VALUES: dict[str, Any] = {
    "tool": "refund_customer",
    "arguments": ARGUMENTS,
    "payload": ARGUMENTS,
    "reason": "The customer sent photos.",
    "stated_reason": "The customer sent photos.",
    "run_id": "run-7",
    "step_id": "3",
    "status": "prepared",
    "ledger_status": "planned",
    "transaction_id": TRANSACTION,
    "action_summary": "Refund €48.20 to Ana Ruiz for order 1042",
    "warnings": [],
    "amount": "48.20",
    "currency": "EUR",
    "consequence_level": "COMPENSABLE",
    "risk_level": "HIGH",
    "required_approver": "HUMAN",
    "quorum": 1,
    "expires_at": LATER,
    "expires_in": 900,
    "intent_digest": DIGEST,
    "sha256": DIGEST,
    "input_hash": DIGEST,
    "idempotency_key": "refund-1042",
    "operation_key": "refund:acme:pay_1042",
    "owner_service": "payments",
    "proposed_by": "agent:acme/helpdesk",
    "principal": "agent:acme/helpdesk",
    "principal_name": "Helpdesk agent",
    "submitted_by": "agent:acme/helpdesk",
    "owner": "agent:acme/archivist",
    "added_by": "agent:acme/goodwill",
    "via": "api",
    "verdict": "approve",
    "paragraphs": ["2", "4.1"],
    "version": "3",
    "text": TEXT,
    "created_at": AT,
    "updated_at": AT,
    "at": AT,
    "retain_until": "2033-11-20T09:30:00Z",
    "task_id": TASK,
    "question_id": "01a1fb79-1c0e-7d4f-a3c2-0d9f7a1be3d4",
    "jti": PERMIT_ID,
    "issued_at": AT,
    "redeemed_at": AT,
    "act_before": AT,
    "token": PERMIT,
    "reading_id": "01a1fb79-4a11-7a66-9b51-6f1d1c2e8f00",
    "skill": "consolidate",
    "skills": ["consolidate"],
    "input": {"transcripts": ["Ana: the lamp is broken.", "Ben: it was whole."]},
    "result": {"facts": ["The lamp arrived broken."]},
    "answer": "Ana is right.",
    "change_request": "Leave out the times.",
    "card_version": "1.4",
    "state": "working",
    "context_id": "case-1042",
    "stage": "reading",
    "percent": 40,
    "message": "8 of 47 transcripts",
    "artifact_id": "facts",
    "parts": [{"text": "The lamp arrived broken."}],
    "is_complete": True,
    "evidence": [{"text": "Two transcripts contradict each other."}],
    "may_answer": ["client"],
    "fencing_token": 1,
    "lease_s": 30,
    "lease_expires_at": LATER,
    "attempt": 1,
    "depth": 0,
    "revision": 0,
    "trace_id": "0af7651916cd43dd8448eb211c80319c",
    "event": 42,
    "leaf_index": 41,
    "size": 64,
    "leaf_hash": "pcMsn1vJ2jRBJjS7gMwHNCZzrzJHGuTcr8I8s5yDFcQ=",
    "root": "4sQZ0q5j0kO0cZxYt7m4Tn0yGQh1tZ0g3l6K3bGm0aU=",
    "path": ["0kO0cZxYt7m4Tn0yGQh1tZ0g3l6K3bGm0aU4sQZ0q5g="],
    "old": 64,
    "new": 128,
    "timeout_s": 10,
    "retry_safe": True,
    "ttl_s": 900,
    "wait_s": 30,
    "kind": "transactional",
    "format": "assent.decision-record",
    "next_checkpoint_within_s": 60,
    "keys": {},
    "form": {},
}
# Where a name means something else in one schema, or a request shows more than it must have.
OF_SCHEMA: dict[str, Json] = {
    "PolicyDocumentIn": {"name": "Refunds", "text": f"1. {TEXT}\n"},
    "PolicyDocumentOut": {"name": "Refunds", "text": f"1. {TEXT}\n", "paragraphs": ["1"]},
    "PolicyOut": {"name": "Refunds"},
    "ToolOut": {"name": "refund_customer", "description": "Give a customer their money back."},
    "CallIn": {"arguments": {"payment_id": "pay_1042"}},
    "CallOut": {"result": {"paid": "480.00", "refunded": "0.00", "currency": "EUR"}},
    "TransactionOut": {"result": None, "evidence": None},
    "PendingOut": {"result": None, "evidence": None, "required_approver": "SUPERVISOR"},
    "AskIn": {"text": "Who is right about the lamp?"},
    "QuestionOut": {"state": "open", "text": "Who is right about the lamp?", "answer": None},
    "ReceiptIn": {"receipt": {"id": "del_7"}},
    "RedeemIn": {"permit": PERMIT},
    "ChangeOut": {"path": "arguments.amount", "from": "482.00", "to": "48.20"},
    "PermitOut": {"permit": PERMIT, "audience": "accounts.example"},
    "RedeemedOut": {"attempt": 1},
    "IntrospectionOut": {"active": True},
    "FailIn": {"reason": "The transcripts cannot be read.", "code": "unreadable"},
    "DeclineIn": {"reason": "These are no transcripts.", "code": "not_mine"},
    "HandOverIn": {"skill": "translate", "reason": "It is in Portuguese."},
    "PassOnIn": {"reason": "The photos do not show the lamp."},
    "RejectIn": {"reason": "It was refunded in October."},
    "TaskEventOut": {"kind": "claimed", "from_state": "submitted", "to_state": "working"},
    "TaskOut": {"reason": None, "input_required": None, "result": None},
    "RevisedOut": {"reason": None, "state": "completed"},
    "WorkOut": {"messages": [], "answers": [], "revises": None, "change_request": ""},
    "SealedEvent": {"at": "1795340000000000", "details": "{}", "kind": "prepared"},
    "DecisionRecord": {
        "version": 2,
        "result": None,
        "evidence": None,
        "task": None,
        "questions": None,
    },
    "InclusionOut": {"checkpoint": None},
    "OutcomeOut": PENDING,
    "ProposedOut": PENDING,
    "Links": {
        "self": f"/api/v1/transactions/{TRANSACTION}",
        "wait": f"/api/v1/transactions/{TRANSACTION}?wait=30",
        "desk": f"/transactions/{TRANSACTION}/",
    },
    "PermitLinks": {
        "redeem": f"/api/v1/permits/{PERMIT_ID}/redeem",
        "receipt": f"/api/v1/transactions/{TRANSACTION}/receipt",
    },
    "TaskLinks": {
        "self": f"/api/v1/tasks/{TASK}",
        "resolve": f"/api/v1/tasks/{TASK}/resolve",
        "cancel": f"/api/v1/tasks/{TASK}/cancel",
        "desk": f"/tasks/{TASK}/",
        "transaction": f"/api/v1/transactions/{TRANSACTION}",
    },
}
# What a short request leaves out although it has a value above.
LEFT_OUT = {
    "ttl_s",
    "run_id",
    "step_id",
    "card_version",
    "may_answer",
    "change_request",
    "form",
    "push",
}
QUERIES = {
    "readTransaction": "?wait=30",
    "listPending": "?wait=30",
    "readTask": "?wait=30",
    "proveInclusion": "?event=42",
    "proveConsistency": "?old=64&new=128",
}
IN_PATHS = {**VALUES, "name": "refund_customer"}


def request_of(schema: Json, schemas: Json) -> Any:
    """A body with what it must have, and the fields that most requests have."""
    return _object(schema, schemas, is_request=True)


def answer_of(schema: Json, schemas: Json) -> Any:
    """An answer with each of its fields."""
    return _value("", schema, schemas, {})


def _object(schema: Json, schemas: Json, *, is_request: bool = False) -> Json:
    name = schema.get("$ref", "").rpartition("/")[2]
    schema, own = resolved(schema, schemas), OF_SCHEMA.get(name, {})
    required = schema.get("required", ())
    return {
        field: _value(field, properties, schemas, own)
        for field, properties in schema.get("properties", {}).items()
        if not is_request
        or field in required
        or field in own
        or (field in VALUES and field not in LEFT_OUT)
    }


def _value(name: str, schema: Json, schemas: Json, own: Json) -> Any:
    if name in own:
        return own[name]
    whole = resolved(schema, schemas)
    if name in VALUES and not _holds_objects(whole, schemas):
        return VALUES[name]
    for choice in whole.get("anyOf", ()):
        return None if whole.get("default", 0) is None else _value("", choice, schemas, {})
    if "enum" in whole:
        return whole["enum"][0]
    if "default" in whole:
        return whole["default"]
    if whole.get("properties"):
        return _object(schema, schemas)
    if whole.get("type") == "array":
        return [_value("", whole["items"], schemas, {})] if "$ref" in whole["items"] else []
    return _plain(whole)


def _holds_objects(schema: Json, schemas: Json) -> bool:
    """True if the schema says which fields there are; a value by name alone would not know."""
    return "properties" in schema or any(
        "properties" in resolved(choice, schemas) for choice in schema.get("anyOf", ())
    )


def _plain(schema: Json) -> Any:
    if schema.get("format") == "uuid":
        return TRANSACTION
    if schema.get("format") == "date-time":
        return AT
    kinds: Json = {"string": "", "integer": 0, "number": 0, "boolean": False, "object": {}}
    return kinds.get(schema.get("type", ""))
