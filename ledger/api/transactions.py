"""REST for agents. Each operation reads the request, calls one verb and renders the answer."""

from __future__ import annotations

import re
from datetime import timedelta
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Header, Query, Router

from ledger.agents import Citation, unknown
from ledger.api.http import (
    BODY,
    AgentBearer,
    address_of,
    caller_of,
    json_response,
    refusals,
    unquoted,
)
from ledger.api.http.polling import POLL_INTERVAL_S, Pace, headers_of_read, pace_of, too_fast
from ledger.api.rendering import (
    as_json,
    beside_today,
    record_response,
    render_token,
    rendered,
    versioned,
)
from ledger.api.schemas import (
    AdviceIn,
    ApproveIn,
    CancelByKeyIn,
    CanceledKey,
    CancelIn,
    DecisionRecord,
    PassOnIn,
    PolicyIn,
    Prepared,
    ProposalIn,
    RejectIn,
    SayIn,
    TransactionOut,
    TransactionPage,
)
from ledger.api.visibility import supervisor_of, visible, visible_to
from ledger.api.waiting import LONGEST_WAIT_S
from ledger.errors import NotFound
from ledger.foundation.postgres import keyset_page
from ledger.models import Scope, Transaction, Verdict
from ledger.principals import Surface
from ledger.proof.audit import decision_records
from ledger.states import FINAL, State
from ledger.transactions import coordinator
from ledger.transactions.coordinator import Proposal, Vote

PAGE = 50
TRACEPARENT = re.compile(r"^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$")
DECIDED = {200: TransactionOut, **refusals(*BODY, 403, 404, 409)}
router = Router(auth=AgentBearer(), tags=["transactions"])


@router.post(
    "",
    operation_id="prepareTransaction",
    response={201: Prepared, 200: Prepared, **refusals(*BODY, 403, 404, 409, 502, 503, 504)},
)
def prepare(
    request: HttpRequest,
    body: ProposalIn,
    idempotency_key: str = Header("", alias="Idempotency-Key"),
    traceparent: str = Header(""),
) -> HttpResponse:
    """Propose a transaction. Nothing happens until it is signed off.

    Send an `Idempotency-Key` (any text, bare or quoted): repeating the request with the same key
    gives the same answer, marked `Idempotent-Replayed: true`, and never a second transaction. A
    replayed answer says as `now` how the transaction stands today.
    """
    caller = caller_of(request, Scope.PROPOSE)
    if not caller.may_use(body.tool):
        raise unknown(body.tool)
    answer = coordinator.prepare(
        Proposal(
            tool=body.tool,
            arguments=body.arguments,
            reason=body.reason,
            run_id=body.run_id,
            step_id=body.step_id,
            traceparent=trace_of(traceparent),
            replaces=body.replaces,
            ttl=None if body.ttl_s is None else timedelta(seconds=body.ttl_s),
        ),
        by=caller.principal,
        tenant=caller.tenant,
        key=unquoted(idempotency_key),
        via=Surface.REST,
        render=render_token,
    )
    text = answer.text
    if answer.is_replay and answer.transaction_id is not None:
        row = Transaction.objects.get(pk=answer.transaction_id)
        text = beside_today(text, row, reader=str(caller.principal))
    response = HttpResponse(text, status=answer.status, content_type="application/json")
    response["Location"] = address_of(f"/api/v1/transactions/{answer.transaction_id}")
    if answer.is_replay:
        response["Idempotent-Replayed"] = "true"
    return response


def trace_of(traceparent: str) -> str:
    """The header, if it is a W3C trace context; anything else is ignored, as that says."""
    return traceparent if TRACEPARENT.match(traceparent) else ""


@router.get(
    "",
    operation_id="listTransactions",
    response={200: TransactionPage, **refusals(422)},
)
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
    caller = caller_of(request)
    wanted = {"state": state, "tool": tool, "run_id": run_id, "trace_id": trace_id}
    rows = visible_to(caller).filter(**{name: value for name, value in wanted.items() if value})
    rows = rows.prefetch_related("decisions")
    page = keyset_page(rows, limit, before=None if cursor is None else (cursor,))
    body = {
        "items": [as_json(row) for row in page.rows],
        "next_cursor": None if page.cursor is None else str(page.cursor),
    }
    return json_response(body)


@router.post(
    "/cancel",
    operation_id="cancelByIdempotencyKey",
    response={200: CanceledKey, **refusals(*BODY, 403, 409)},
)
def cancel_by_key(request: HttpRequest, body: CancelByKeyIn) -> HttpResponse:
    """Cancel by the idempotency key of a prepare whose answer never came.

    If the prepare arrives after this, it is refused.
    """
    caller = caller_of(request, Scope.PROPOSE)
    row = coordinator.cancel_request(
        unquoted(body.idempotency_key), by=caller.principal, via=Surface.REST, reason=body.reason
    )
    answer = {
        "idempotency_key": body.idempotency_key,
        "transaction": None if row is None else as_json(row),
    }
    return json_response(answer)


@router.get(
    "/{uuid:transaction_id}",
    operation_id="readTransaction",
    response={200: TransactionOut, 304: None, **refusals(404, 422)},
)
def read(
    request: HttpRequest,
    transaction_id: UUID,
    wait: float = Query(0, ge=0, le=LONGEST_WAIT_S, description="Seconds to wait for a change."),
    if_none_match: str = Header("", alias="If-None-Match"),
) -> HttpResponse:
    """One transaction. With `wait`, answers as soon as it changes (or when it has ended).

    Read with `If-None-Match` and the `ETag` you have: nothing new costs no body. Without `wait`,
    ask every two seconds at most, until it has ended.
    """
    caller = caller_of(request)
    pace = pace_of(caller, transaction_id) if wait < POLL_INTERVAL_S else Pace.FINE
    row = visible(caller, transaction_id)
    if pace is Pace.REFUSED and row.state not in FINAL:
        return too_fast(transaction_id)
    body, etag = versioned(row)
    known = if_none_match.removeprefix("W/")
    response = HttpResponse(status=304) if known == etag else json_response(body)
    for name, value in headers_of_read(etag, pace, is_final=row.state in FINAL).items():
        response[name] = value
    return response


@router.get(
    "/{uuid:transaction_id}/record",
    operation_id="getTransactionRecord",
    response={200: DecisionRecord, **refusals(404)},
)
def record(request: HttpRequest, transaction_id: UUID) -> HttpResponse:
    """All that proves this transaction, as one file that verifies offline: its decision record.

    For the agent that proposed it, and for the scope `read_all`.
    """
    caller = caller_of(request)
    rows = Transaction.objects.for_tenants(frozenset({caller.tenant}))
    if Scope.READ_ALL not in caller.scopes:
        rows = rows.proposed_by(caller.principal)
    row = rows.filter(pk=transaction_id).first()
    if row is None:
        raise NotFound()
    return record_response(decision_records.for_agents(decision_records.of_transaction(row)))


@router.post("/{uuid:transaction_id}/cancel", operation_id="cancelTransaction", response=DECIDED)
def cancel(request: HttpRequest, transaction_id: UUID, body: CancelIn) -> HttpResponse:
    """Take a proposal back, as long as nobody has decided."""
    caller = caller_of(request, Scope.PROPOSE)
    visible(caller, transaction_id)
    row = coordinator.cancel(
        transaction_id, by=caller.principal, via=Surface.REST, reason=body.reason
    )
    return rendered(row)


@router.post(
    "/{uuid:transaction_id}/answer", operation_id="answerAboutTransaction", response=DECIDED
)
def answer(request: HttpRequest, transaction_id: UUID, body: SayIn) -> HttpResponse:
    """Answer the question that somebody who decides has asked about it."""
    caller = caller_of(request, Scope.PROPOSE)
    visible(caller, transaction_id)
    row = coordinator.answer(transaction_id, by=caller.principal, via=Surface.REST, text=body.text)
    return rendered(row)


@router.post("/{uuid:transaction_id}/approve", operation_id="approveTransaction", response=DECIDED)
def approve(request: HttpRequest, transaction_id: UUID, body: ApproveIn) -> HttpResponse:
    """A supervisor's yes, where the contract says `required_approver: SUPERVISOR`."""
    vote = _vote(request, transaction_id, body)
    return rendered(coordinator.approve(transaction_id, **vote))


@router.post("/{uuid:transaction_id}/reject", operation_id="rejectTransaction", response=DECIDED)
def reject(request: HttpRequest, transaction_id: UUID, body: RejectIn) -> HttpResponse:
    """A supervisor's no, and why."""
    vote = _vote(request, transaction_id, body)
    return rendered(coordinator.reject(transaction_id, **vote))


@router.post("/{uuid:transaction_id}/pass-on", operation_id="passOnTransaction", response=DECIDED)
def pass_on(request: HttpRequest, transaction_id: UUID, body: PassOnIn) -> HttpResponse:
    """A supervisor leaves it to people, with its reasoning. From then on no agent decides it."""
    vote = _vote(request, transaction_id, body)
    return rendered(coordinator.pass_on(transaction_id, **vote))


@router.post("/{uuid:transaction_id}/advice", operation_id="adviseOnTransaction", response=DECIDED)
def advise(request: HttpRequest, transaction_id: UUID, body: AdviceIn) -> HttpResponse:
    """A supervisor says what it would decide where people do. It is shown to them, and no vote.

    One on each revision, also of what was passed on; neither of the proposer nor of an agent with
    the same keeper.
    """
    caller = caller_of(request, Scope.DECIDE)
    visible(caller, transaction_id)
    row = coordinator.advise(
        transaction_id,
        Verdict(body.recommends),
        digest=body.intent_digest,
        by=caller.principal,
        via=Surface.REST,
        reason=body.reason,
        policy=_citation(body.policy),
    )
    return rendered(row)


def _citation(policy: PolicyIn | None) -> Citation | None:
    return None if policy is None else Citation(policy.sha256, tuple(policy.paragraphs))


def _vote(
    request: HttpRequest, transaction_id: UUID, body: ApproveIn | RejectIn | PassOnIn
) -> Vote:
    return {
        "digest": body.intent_digest,
        "by": supervisor_of(request, transaction_id).principal,
        "via": Surface.REST,
        "reason": body.reason,
        "policy": _citation(body.policy),
    }
