"""REST for agents. Each operation reads the request, calls one verb and renders the answer."""

from __future__ import annotations

import hashlib
import json
import logging
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import connection
from django.http import HttpRequest, HttpResponse
from ninja import Header, Query, Router
from ninja.security import HttpBearer
from pydantic_core import to_jsonable_python
from redis import RedisError

from ledger import contracts, coordinator, doorbell, intents
from ledger.contracts import ReadonlyTool, RequiredApprover, Tool
from ledger.coordinator import Proposal
from ledger.errors import (
    InvalidRequest,
    NotAllowed,
    NotFound,
    UnknownTool,
)
from ledger.models import AgentToken, IdempotencyKey, Reading, Scope, Transaction, TransactionQuerySet
from ledger.principals import Principal
from ledger.problems import problem
from ledger.schemas import (
    TRACEPARENT,
    ApproveIn,
    CallIn,
    CallOut,
    CanceledKey,
    CancelByKeyIn,
    CancelIn,
    Problem,
    ProposalIn,
    RejectIn,
    TokenOfIntent,
    ToolOut,
    TransactionOut,
    TransactionPage,
)
from ledger.states import FINAL, State

logger = logging.getLogger(__name__)

LONGEST_WAIT_S = 60.0
POLL_INTERVAL_S = 2
# Too fast this often within POLL_MEMORY_S, and the answer is 429.
POLL_PATIENCE = 3
POLL_MEMORY_S = 20
PAGE = 50


@dataclass(frozen=True, slots=True)
class Caller:
    """Who a valid token speaks for."""

    principal: Principal
    tenant: str
    scopes: frozenset[str]

    def require(self, scope: Scope) -> None:
        if scope not in self.scopes:
            raise NotAllowed(f"This token lacks the scope {scope.value!r}.", scope=scope.value)


# By hand: this runs for every request, and the ORM would take a third of a prepare to write it.
_USABLE_TOKEN = """
    SELECT agent.tenant_id, agent.slug, agent.name, token.scopes
    FROM ledger_agenttoken token JOIN ledger_agent agent ON agent.id = token.agent_id
    WHERE token.token_hash = %s AND token.revoked_at IS NULL AND agent.is_active
        AND (token.expires_at IS NULL OR token.expires_at > now())
"""


class AgentBearer(HttpBearer):
    """A token that is neither revoked nor expired, of an active agent."""

    def authenticate(self, request: HttpRequest, token: str) -> Caller | None:
        with connection.cursor() as cursor:
            cursor.execute(_USABLE_TOKEN, [AgentToken.hash_of(token)])
            row = cursor.fetchone()
        if row is None:
            return None
        tenant, slug, name, scopes = row
        return Caller(Principal("agent", f"{tenant}/{slug}", name), tenant, frozenset(scopes))


router = Router(auth=AgentBearer(), tags=["transactions"])
tools_router = Router(auth=AgentBearer(), tags=["tools"])
REFUSALS = {code: Problem for code in (400, 401, 403, 404, 409, 413, 422, 429, 502)}


# --- transactions -----------------------------------------------------------------------------


@router.post("", response={201: TokenOfIntent, 200: TokenOfIntent, **REFUSALS})
def prepare(
    request: HttpRequest,
    body: ProposalIn,
    idempotency_key: str = Header("", alias="Idempotency-Key"),
    traceparent: str = Header(""),
) -> HttpResponse:
    """Propose a transaction. Nothing happens until it is signed off.

    Send an `Idempotency-Key` (any text, bare or quoted): repeating the request with the same key
    gives the same answer, marked `Idempotent-Replayed: true`, and never a second transaction.
    """
    caller = _caller(request, Scope.PROPOSE)
    answer = coordinator.prepare(
        Proposal(
            tool=body.tool,
            arguments=body.arguments,
            reason=body.reason,
            run_id=body.run_id,
            step_id=body.step_id,
            traceparent=traceparent if re.match(TRACEPARENT, traceparent) else "",
            ttl=None if body.ttl_s is None else timedelta(seconds=body.ttl_s),
        ),
        by=caller.principal,
        tenant=caller.tenant,
        key=_unquoted(idempotency_key),
        via="api",
        render=render_token,
    )
    response = HttpResponse(answer.text, status=answer.status, content_type="application/json")
    response["Location"] = _address(f"/api/v1/transactions/{answer.transaction_id}")
    if answer.is_replay:
        response["Idempotent-Replayed"] = "true"
    return response


@router.get("", response={200: TransactionPage, **REFUSALS})
def list_transactions(
    request: HttpRequest,
    cursor: UUID | None = Query(None, description="next_cursor of the page before."),
    limit: int = Query(PAGE, ge=1, le=200),
    state: State | None = None,
    tool: str = Query("", max_length=100),
    run_id: str = Query("", max_length=200),
    trace_id: str = Query("", max_length=32),
) -> HttpResponse:
    """The agent's own transactions, newest first; with the scope `read_all`, its tenant's."""
    caller = _caller(request)
    wanted = {"state": state, "tool": tool, "run_id": run_id, "trace_id": trace_id}
    intents.refuse_unsafe_text([tool, run_id, trace_id])
    rows = _visible_to(caller).filter(**{name: value for name, value in wanted.items() if value})
    if cursor is not None:
        rows = rows.filter(pk__lt=cursor)
    page = list(rows.prefetch_related("decisions").order_by("-pk")[: limit + 1])
    items, more = page[:limit], page[limit:]
    body = {
        "items": [_as_json(row) for row in items],
        "next_cursor": str(items[-1].pk) if more else None,
    }
    return HttpResponse(json.dumps(body), content_type="application/json")


@router.post("/cancel", response={200: CanceledKey, **REFUSALS})
def cancel_by_key(request: HttpRequest, body: CancelByKeyIn) -> HttpResponse:
    """Cancel by the idempotency key of a prepare whose answer never came.

    If the prepare arrives after this, it is refused.
    """
    caller = _caller(request, Scope.PROPOSE)
    row = coordinator.cancel_request(
        _unquoted(body.idempotency_key), by=caller.principal, via="api", reason=body.reason
    )
    answer = {
        "idempotency_key": body.idempotency_key,
        "transaction": None if row is None else _as_json(row),
    }
    return HttpResponse(json.dumps(answer), content_type="application/json")


@router.get("/{uuid:transaction_id}", response={200: TransactionOut, 304: None, **REFUSALS})
def read(
    request: HttpRequest,
    transaction_id: UUID,
    wait: float = Query(0, ge=0, le=LONGEST_WAIT_S, description="Seconds to wait for a change."),
    if_none_match: str = Header("", alias="If-None-Match"),
) -> HttpResponse:
    """One transaction. With `wait`, answers as soon as it changes (or when it has ended).

    Read with `If-None-Match` and the `ETag` you have: nothing new costs no body. Without `wait`,
    ask every two seconds at most.
    """
    caller = _caller(request)
    is_too_fast = wait < POLL_INTERVAL_S and _polls_too_fast(caller, transaction_id)
    if is_too_fast == "stop":
        response = problem(
            429,
            "polling_too_fast",
            "Polling too fast",
            f"Transaction {transaction_id} was asked for several times within {POLL_MEMORY_S} s.",
            f"Wait {POLL_INTERVAL_S} s between two requests, or use ?wait=30.",
        )
        response["Retry-After"] = str(POLL_INTERVAL_S)
        return response
    row = _visible(caller, transaction_id)
    body, etag = _versioned(row)
    known = if_none_match.removeprefix("W/")
    if wait and row.state not in FINAL and known in {"", etag}:
        row, body, etag = _wait_for_change(caller, transaction_id, (row, body, etag), wait)
    response = (
        HttpResponse(status=304)
        if known == etag
        else HttpResponse(json.dumps(body), content_type="application/json")
    )
    response["ETag"] = etag
    response["Cache-Control"] = "private, no-cache"
    if is_too_fast or row.state not in FINAL:
        response["Retry-After"] = str(POLL_INTERVAL_S)
    return response


@router.post("/{uuid:transaction_id}/cancel", response={200: TransactionOut, **REFUSALS})
def cancel(request: HttpRequest, transaction_id: UUID, body: CancelIn) -> HttpResponse:
    """Take a proposal back, as long as nobody has decided."""
    caller = _caller(request, Scope.PROPOSE)
    _visible(caller, transaction_id)
    row = coordinator.cancel(transaction_id, by=caller.principal, via="api", reason=body.reason)
    return _rendered(row)


@router.post("/{uuid:transaction_id}/approve", response={200: TransactionOut, **REFUSALS})
def approve(request: HttpRequest, transaction_id: UUID, body: ApproveIn) -> HttpResponse:
    """A supervisor's yes, where the contract says `required_approver: SUPERVISOR`."""
    caller = _supervisor(request, transaction_id)
    return _rendered(
        coordinator.approve(
            transaction_id,
            digest=body.intent_digest,
            by=caller.principal,
            via="api",
            reason=body.reason,
        )
    )


@router.post("/{uuid:transaction_id}/reject", response={200: TransactionOut, **REFUSALS})
def reject(request: HttpRequest, transaction_id: UUID, body: RejectIn) -> HttpResponse:
    """A supervisor's no, and why."""
    caller = _supervisor(request, transaction_id)
    return _rendered(
        coordinator.reject(
            transaction_id,
            digest=body.intent_digest,
            by=caller.principal,
            via="api",
            reason=body.reason,
        )
    )


# --- tools ------------------------------------------------------------------------------------


@tools_router.get("", response={200: list[ToolOut], **REFUSALS})
def list_tools(request: HttpRequest) -> list[dict[str, Any]]:
    """Every tool, with what it promises and the JSON Schema of its arguments."""
    return [
        *(describe(tool) for tool in contracts.tools.values()),
        *(describe_readonly(tool) for tool in contracts.readonly_tools.values()),
    ]


@tools_router.get("/{name}", response={200: ToolOut, **REFUSALS})
def read_tool(request: HttpRequest, name: str) -> dict[str, Any]:
    if name in contracts.readonly_tools:
        return describe_readonly(contracts.readonly_tools[name])
    return describe(contracts.tool_named(name))


@tools_router.post("/{name}/call", response={200: CallOut, **REFUSALS})
def call_readonly(request: HttpRequest, name: str, body: CallIn) -> HttpResponse:
    """Run a read-only tool. It needs no sign-off and is recorded."""
    caller = _caller(request, Scope.PROPOSE)
    tool = contracts.readonly_tools.get(name)
    if tool is None:
        if name in contracts.tools:
            raise InvalidRequest(
                f"{name} changes the world; it cannot be called.",
                hint="Propose it: POST /api/v1/transactions.",
            )
        raise UnknownTool(f"There is no read-only tool named {name!r:.80}.")
    intents.refuse_unsafe_text(body.arguments)
    arguments = tool.validate(body.arguments)
    reading = Reading(
        tenant=caller.tenant,
        agent=str(caller.principal),
        tool=name,
        arguments=arguments.model_dump(mode="json"),
    )
    try:
        result = tool(**{field: getattr(arguments, field) for field in type(arguments).model_fields})
        text = json.dumps(to_jsonable_python(result, fallback=repr, inf_nan_mode="strings"))
    except Exception as failure:
        logger.warning("%s failed", name, exc_info=True)
        reading.error = f"{type(failure).__name__}: {failure}"[:2000].replace("\x00", "")
        reading.save()
        return problem(
            502, "tool_failed", "The tool failed", f"{name} did not answer.", "Try again later."
        )
    reading.result_hash = hashlib.sha256(text.encode()).hexdigest()
    reading.save()
    answer = f'{{"reading_id": "{reading.pk}", "result": {text}}}'
    return HttpResponse(answer, content_type="application/json")


def describe(tool: Tool[Any, Any]) -> dict[str, Any]:
    contract = tool.contract
    return {
        "name": tool.name,
        "description": tool.description,
        "kind": "transactional",
        "owner_service": contract.owner_service,
        "input_schema": tool.arguments_model.model_json_schema(),
        "risk_level": contract.risk_level,
        "required_approver": contract.required_approver,
        "consequence_level": contract.consequence_level,
        "operation_key": contract.operation_key,
        "receipt": contract.receipt,
        "retry_safe": contract.retry_safe,
        "quorum": contract.quorum,
        "undo": contract.undo,
        "timeout_s": contract.timeout.total_seconds(),
        "ttl_s": contract.ttl.total_seconds(),
        "min_ttl_s": contract.min_ttl.total_seconds(),
        "max_ttl_s": contract.max_ttl.total_seconds(),
        "retention_s": contract.retention.total_seconds(),
        "companions": sorted(tool.companions),
    }


def describe_readonly(tool: ReadonlyTool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "kind": "readonly",
        "owner_service": tool.owner_service,
        "input_schema": tool.arguments_model.model_json_schema(),
        "timeout_s": tool.timeout.total_seconds(),
    }


# --- who, and what they may see ---------------------------------------------------------------


def _caller(request: HttpRequest, scope: Scope | None = None) -> Caller:
    caller: Caller = request.auth  # type: ignore[attr-defined]
    if scope is not None:
        caller.require(scope)
    return caller


def _supervisor(request: HttpRequest, transaction_id: UUID) -> Caller:
    """May decide here at all, and sees the transaction. Fails closed: the scope first."""
    caller = _caller(request, Scope.DECIDE)
    row = Transaction.objects.filter(tenant=caller.tenant, pk=transaction_id).first()
    if row is None:
        raise NotFound()
    if row.required_approver != RequiredApprover.SUPERVISOR:
        raise NotAllowed(
            f"The contract of {row.tool} asks for a person, not for a supervisor.",
            hint="A person has to decide at the desk.",
        )
    return caller


def _visible_to(caller: Caller) -> TransactionQuerySet:
    """Its own, and those that a duplicate proposal of its own led to."""
    rows = Transaction.objects.for_tenants(frozenset({caller.tenant}))
    if caller.scopes & {Scope.READ_ALL, Scope.DECIDE}:
        return rows
    return rows.proposed_by(caller.principal)


def _visible(caller: Caller, transaction_id: UUID) -> Transaction:
    rows = Transaction.objects.for_tenants(frozenset({caller.tenant}))
    row = rows.prefetch_related("decisions").filter(pk=transaction_id).first()
    if row is None or not _may_see(caller, row):
        raise NotFound()
    return row


def _may_see(caller: Caller, row: Transaction) -> bool:
    if row.proposed_by == str(caller.principal) or caller.scopes & {Scope.READ_ALL, Scope.DECIDE}:
        return True
    return IdempotencyKey.objects.filter(agent=str(caller.principal), transaction=row).exists()


# --- rendering ----------------------------------------------------------------------------------


def render_token(row: Transaction, duplicate_of: UUID | None) -> str:
    return json.dumps(_token(row, duplicate_of))


def _token(row: Transaction, duplicate_of: UUID | None = None) -> dict[str, Any]:
    here = f"/api/v1/transactions/{row.pk}"
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
        "links": {
            "self": _address(here),
            "wait": f"{settings.LIVE_URL}{here}?wait=30",
            "desk": _address(f"/transactions/{row.pk}/"),
        },
    }
    if duplicate_of is not None:
        token["duplicate_of"] = str(duplicate_of)
    return token


COPIED = (
    "tool", "owner_service", "proposed_by", "stated_reason", "risk_level", "required_approver",
    "quorum", "payload", "arguments", "input_hash", "operation_key", "run_id", "step_id",
    "trace_id", "receipt", "receipt_url", "result", "error", "ending", "ending_reason",
    "compensation_receipt",
)  # fmt: skip
INSTANTS = ("created_at", "decided_at", "ended_at")


def _as_json(row: Transaction) -> dict[str, Any]:
    body = _token(row)
    body["ledger_status"] = row.ledger_status.value
    body |= {name: getattr(row, name) for name in COPIED}
    body |= {name: at.isoformat() if (at := getattr(row, name)) else None for name in INSTANTS}
    body["decisions"] = [
        {
            "verdict": vote.verdict,
            "principal": vote.principal,
            "principal_name": vote.principal_name,
            "via": vote.via,
            "reason": vote.reason,
            "at": vote.at.isoformat(),
        }
        for vote in sorted(row.decisions.all(), key=lambda vote: vote.at)
    ]
    return body


def _versioned(row: Transaction) -> tuple[dict[str, Any], str]:
    """The body, and an entity tag that changes when anything but the passing of time does."""
    body = _as_json(row)
    etag = hashlib.sha256(json.dumps(body).encode()).hexdigest()[:32]
    left = row.expires_at.timestamp() - time.time()
    return body | {"expires_in": max(0.0, round(left, 3))}, f'"{etag}"'


def _rendered(row: Transaction) -> HttpResponse:
    body, etag = _versioned(row)
    response = HttpResponse(json.dumps(body), content_type="application/json")
    response["ETag"] = etag
    return response


def _address(path: str) -> str:
    return f"{settings.PUBLIC_URL}{path}"


def _unquoted(key: str) -> str:
    """An Idempotency-Key comes bare or as a quoted string (RFC 8941)."""
    if len(key) >= 2 and key[0] == key[-1] == '"':
        return key[1:-1].replace('\\"', '"').replace("\\\\", "\\")
    return key


# --- waiting ------------------------------------------------------------------------------------

Version = tuple[Transaction, dict[str, Any], str]
# A waiting agent takes a thread, so a process lets in this many; the rest are answered at once.
waiting_room = threading.BoundedSemaphore(settings.LONG_POLLS)


def _wait_for_change(caller: Caller, transaction_id: UUID, seen: Version, wait: float) -> Version:
    """Sleep until the bell rings for this transaction, and look at least every other second.

    No database connection is held while sleeping. The bell is listened to before the first look,
    so that nothing falls between.
    """
    if not waiting_room.acquire(blocking=False):
        return seen
    deadline = time.monotonic() + wait
    try:
        with _bell(transaction_id) as listen:
            while True:
                row = _visible(caller, transaction_id)
                body, etag = _versioned(row)
                left = deadline - time.monotonic()
                if etag != seen[2] or row.state in FINAL or left <= 0:
                    return row, body, etag
                _release_connection()
                listen(min(left, POLL_INTERVAL_S / 2))
    finally:
        waiting_room.release()


@contextmanager
def _bell(transaction_id: UUID) -> Iterator[Any]:
    """A function that sleeps until the bell or a number of seconds, with or without Redis."""
    subscription = doorbell.redis().pubsub(ignore_subscribe_messages=True)

    def listen(seconds: float) -> None:
        until = time.monotonic() + seconds
        try:
            while (left := until - time.monotonic()) > 0:
                if subscription.get_message(timeout=left) is not None:
                    return
        except (RedisError, OSError):
            time.sleep(max(0.0, until - time.monotonic()))

    try:
        try:
            subscription.subscribe(doorbell.channel_of(transaction_id))
        except RedisError as failure:
            logger.info("waiting without a bell: %s", failure)
            yield lambda seconds: time.sleep(seconds)
            return
        yield listen
    finally:
        subscription.close()


def _release_connection() -> None:
    if not connection.in_atomic_block:
        connection.close()


def _polls_too_fast(caller: Caller, transaction_id: UUID) -> str:
    """``""``, ``"slow down"`` or ``"stop"``. Without Redis nobody is slowed down."""
    name = f"assent:poll:{caller.principal}:{transaction_id}"
    try:
        redis = doorbell.redis()
        if redis.set(name, 1, nx=True, px=POLL_INTERVAL_S * 1000 - 100):
            return ""
        times = redis.incr(f"{name}:fast")
        redis.expire(f"{name}:fast", POLL_MEMORY_S)
    except RedisError:
        return ""
    return "stop" if int(str(times)) > POLL_PATIENCE else "slow down"

