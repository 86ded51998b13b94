"""Rows as the JSON that agents read."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from django.conf import settings
from django.http import HttpResponse

from ledger.api.http import address_of, json_response
from ledger.api.terms import terms_of
from ledger.models import Decision, Transaction, TransactionRow
from ledger.proof.audit import decision_records
from ledger.states import State
from ledger.tools import acts_itself
from ledger.transactions import outcome_of
from ledger.transactions.coordinator import requests_to_agent

Row = Transaction | TransactionRow


def render_token(row: Row, duplicate_of: UUID | None) -> str:
    return json.dumps(_token(row, duplicate_of))


def _token(row: Row, duplicate_of: UUID | None = None) -> dict[str, Any]:
    path = f"/api/v1/transactions/{row.pk}"
    token = {
        "status": row.state,
        "transaction_id": str(row.pk),
        "action_summary": row.action_summary,
        "warnings": row.warnings,
        "financial_impact": row.financial_impact,
        "consequence_level": row.consequence_level,
        "expires_at": row.expires_at.isoformat(),
        "expires_in": (row.expires_at - row.created_at).total_seconds(),
        "intent_digest": row.intent_digest,
        "terms": terms_of(row),
        "links": {
            "self": address_of(path),
            "wait": f"{settings.LIVE_URL}{path}?wait=30",
            "desk": address_of(f"/transactions/{row.pk}/"),
        },
        # Whoever's duplicate it is learns how it stands, not why.
        "outcome": outcome_of(row, is_own=False).as_json(),
    }
    if row.content_erased_at is not None:
        token["content_erased_at"] = row.content_erased_at.isoformat()
    if duplicate_of is not None:
        token["duplicate_of"] = str(duplicate_of)
    return token


def beside_today(token: str, row: Transaction, reader: str) -> str:
    """A Token of Intent as it was given once, and how its transaction stands today.

    Whose duplicate it was is told only whether it still stands; the receipt is the proposer's.
    """
    is_own = row.proposed_by == reader
    agent_acts = is_own and acts_itself(row)
    now = {
        "status": row.state,
        "ledger_status": row.ledger_status.value,
        "receipt": row.receipt if is_own else "",
        "ending_reason": row.ending_reason if is_own else "",
        "ended_at": row.ended_at.isoformat() if row.ended_at else None,
        "outcome": outcome_of(row, is_own=is_own, acts_itself=agent_acts).as_json(),
    }
    return json.dumps({**json.loads(token), "now": now})


COPIED = (
    "tool",
    "owner_service",
    "proposed_by",
    "stated_reason",
    "risk_level",
    "required_approver",
    "quorum",
    "required_policy",
    "payload",
    "arguments",
    "evidence",
    "input_hash",
    "operation_key",
    "run_id",
    "step_id",
    "trace_id",
    "receipt",
    "receipt_url",
    "result",
    "error",
    "ending",
    "ending_reason",
    "compensation_receipt",
)
INSTANTS = ("created_at", "decided_at", "ended_at", "retain_until", "content_erased_at")


def as_json(row: Transaction) -> dict[str, Any]:
    return _body(row, row.decisions.all())


def _body(row: Row, decisions: Iterable[Decision]) -> dict[str, Any]:
    body = _token(row)
    agent_acts = acts_itself(row)
    body["outcome"] = outcome_of(row, acts_itself=agent_acts).as_json()
    if agent_acts and row.state == State.APPROVED:
        body["links"]["permit"] = address_of(f"/api/v1/transactions/{row.pk}/permit")
    body["ledger_status"] = row.ledger_status.value
    body |= {name: getattr(row, name) for name in COPIED}
    body |= {name: at.isoformat() if (at := getattr(row, name)) else None for name in INSTANTS}
    body |= requests_to_agent(row)
    body["decisions"] = [
        {
            "verdict": vote.verdict,
            "principal": vote.principal,
            "principal_name": vote.principal_name,
            "via": vote.via,
            "reason": vote.reason,
            "at": vote.at.isoformat(),
            "policy": vote.policy,
            "grant": vote.grant_id,
        }
        for vote in sorted(decisions, key=lambda vote: vote.at)
    ]
    return body


def versioned(row: Transaction) -> tuple[dict[str, Any], str]:
    """The body, and an entity tag that changes when anything but the passing of time does."""
    body = as_json(row)
    return body | {"expires_in": seconds_left(row)}, _etag(json.dumps(body))


def versioned_text(row: Row, decisions: Iterable[Decision]) -> tuple[str, str]:
    """The same with the body as JSON, which is written only once.

    ``expires_in`` is replaced in the text: no name before it is the agent's, and quotation marks
    within texts are escaped, so its first occurrence is the member of the body.
    """
    body = _body(row, decisions)
    text = json.dumps(body)
    before, name, after = text.partition('"expires_in": ')
    _, comma, after = after.partition(",")
    return f"{before}{name}{json.dumps(seconds_left(row))}{comma}{after}", _etag(text)


def _etag(text: str) -> str:
    return f'"{hashlib.sha256(text.encode()).hexdigest()[:32]}"'


def seconds_left(row: Row) -> float:
    """Until it expires."""
    return max(0.0, round(row.expires_at.timestamp() - time.time(), 3))


def rendered(row: Transaction) -> HttpResponse:
    body, etag = versioned(row)
    response = json_response(body)
    response["ETag"] = etag
    return response


def record_response(record: Mapping[str, Any]) -> HttpResponse:
    """A decision record as a file."""
    response = HttpResponse(decision_records.as_file(record), content_type="application/json")
    response["Content-Disposition"] = f'attachment; filename="{file_name_of(record)}"'
    response["Cache-Control"] = "private, no-store"
    return response


def file_name_of(record: Mapping[str, Any]) -> str:
    subject = record["subject"]
    return f"decision-record-{subject['type']}-{subject['id']}.json"
