"""The verbs: everything that agents, people and the clock can do to a transaction."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import IntegrityError
from django.db.models import F, Q
from django.db.models.functions import Now
from django.db.transaction import atomic
from pydantic import BaseModel

from ledger import entries, intents, states
from ledger.contracts import Context, Plan, RequiredApprover, Tool, tool_named
from ledger.errors import (
    AlreadyDecided,
    CanceledBefore,
    DigestMismatch,
    Expired,
    IdempotencyKeyMissing,
    IdempotencyKeyReused,
    InProgress,
    InvalidRequest,
    LedgerError,
    NotAllowed,
    NotFound,
    NotPossible,
    OperationKeyConflict,
    OwnTransaction,
    PlanFailed,
    PlanRefused,
)
from ledger.models import (
    Decision,
    Ending,
    IdempotencyKey,
    Transaction,
    Verdict,
    new_id,
)
from ledger.principals import POLICY, SWEEPER, Principal
from ledger.states import State
from ledger.transitions import advance

PREPARE_ROUTE = "prepare"
REASON_MAX = 2_000  # characters
KEY_MAX = 255  # characters
OPERATION_KEY_MAX = 500  # characters
# What a row that enters a new kind of work starts with.
FRESH_WORK: dict[str, Any] = {"attempts": 0, "next_attempt_at": None, "lease_expires_at": None}


@dataclass(frozen=True, slots=True)
class Proposal:
    """What an agent asks for. ``ttl`` is how long it may wait for sign-off."""

    tool: str
    arguments: dict[str, Any]
    reason: str = ""
    run_id: str = ""
    step_id: str = ""
    traceparent: str = ""
    ttl: timedelta | None = None

    @property
    def trace_id(self) -> str:
        """The trace of a W3C traceparent, ``00-<32 hex>-<16 hex>-<2 hex>``."""
        return self.traceparent[3:35]

    def fingerprint(self) -> str:
        """What must be the same for a repeated request to count as the same."""
        said = (self.tool, self.arguments, self.reason, self.run_id, self.step_id, str(self.ttl))
        try:
            text = json.dumps(said, sort_keys=True, separators=(",", ":"), allow_nan=False)
        except (ValueError, RecursionError) as refusal:
            raise InvalidRequest(f"The arguments cannot be written as JSON: {refusal}") from refusal
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class Answer:
    """What the caller of prepare is told: an HTTP status and a JSON text, kept word for word."""

    status: int
    text: str
    transaction_id: UUID | None
    is_replay: bool = False


# Renders a transaction as the Token of Intent, given the id of the one it duplicates, if any.
Render = Callable[[Transaction, UUID | None], str]


def prepare(
    proposal: Proposal, *, by: Principal, tenant: str, key: str, via: str, render: Render
) -> Answer:
    """Plan what is proposed, hold what it needs and put it before an approver.

    Repeating a request with the same key gives the first answer again. A live operation with the
    same input answers with the transaction that has it. Nothing is written when this raises,
    except for a refused plan, which is kept as REFUSED.

    Raises ``IdempotencyKeyMissing, IdempotencyKeyReused, InProgress, CanceledBefore, UnknownTool,
    InvalidRequest`` and its kin, ``OperationKeyConflict, PlanFailed``.
    """
    if not key or len(key) > KEY_MAX:
        raise IdempotencyKeyMissing(f"An Idempotency-Key has 1 to {KEY_MAX} characters.")
    fingerprint = proposal.fingerprint()
    tool = tool_named(proposal.tool)
    intents.refuse_unsafe_text([proposal.arguments, proposal.reason, proposal.run_id, key])
    arguments = tool.validate(proposal.arguments)
    ttl = _allowed_ttl(proposal.ttl, tool)
    meaning = tool.meaning_of(arguments)
    operation_key = tool.operation_key_for(tenant, meaning)
    if len(operation_key) > OPERATION_KEY_MAX:
        raise InvalidRequest(f"The operation key is longer than {OPERATION_KEY_MAX} characters.")
    input_hash = intents.digest_of({"tool": tool.name, "arguments": meaning})
    note = IdempotencyKey(
        agent=str(by), route=PREPARE_ROUTE, key=key, payload_hash=fingerprint, status=201
    )

    with entries.admitted(
        by, tenant, route=PREPARE_ROUTE, key=key, operation_key=operation_key
    ) as known:
        if known.key_status is not None:
            return _replay(known, fingerprint)
        if known.holder_id is not None:
            return _answer_with_holder(known.holder_id, input_hash, note, render)
        began = time.monotonic()
        row = Transaction(
            id=new_id(),
            tenant=tenant,
            proposed_by=str(by),
            proposed_by_name=by.display_name,
            stated_reason=proposal.reason,
            run_id=proposal.run_id,
            step_id=proposal.step_id,
            trace_id=proposal.trace_id,
            traceparent=proposal.traceparent,
            payload=proposal.arguments,
            input_hash=input_hash,
            operation_key=operation_key,
            warnings=[],
            held={},
        )
        _sign_contract(row, tool)
        refusal = _plan(row, tool, arguments)
        row.created_at = known.now + timedelta(seconds=time.monotonic() - began)
        row.expires_at = row.created_at + ttl
        row.retain_until = row.created_at + tool.contract.retention
        row.intent_digest = intents.digest_of(intents.intent_of(row))
        if refusal:
            return _enter_refused(row, refusal, note, by=by, via=via, admission=known)
        return _enter_prepared(row, note, by=by, via=via, render=render, admission=known)


def approve(
    transaction_id: UUID, *, digest: str, by: Principal, via: str, reason: str = ""
) -> Transaction:
    """Sign off exactly what the approver saw.

    The vote that completes the contract's quorum moves the transaction on. Saying the same again
    returns the present row. Raises ``AlreadyDecided, DigestMismatch, Expired, OwnTransaction``,
    each carrying who decided what, and ``NotAllowed`` for an agent where a person is asked for.
    """
    return _decide(transaction_id, Verdict.APPROVE, digest=digest, by=by, via=via, reason=reason)


def reject(
    transaction_id: UUID, *, digest: str, by: Principal, via: str, reason: str
) -> Transaction:
    """Say no, and why: the reason reaches the agent. Raises as ``approve`` does."""
    if not reason.strip():
        raise InvalidRequest("A rejection needs a reason; it is what the agent learns from.")
    return _decide(transaction_id, Verdict.REJECT, digest=digest, by=by, via=via, reason=reason)


def cancel(transaction_id: UUID, *, by: Principal, via: str, reason: str = "") -> Transaction:
    """Take a proposal back; only its proposer may. Canceling twice is one cancel."""
    _check_reason(reason)
    try:
        return advance(
            transaction_id,
            states.CANCEL,
            by=by,
            via=via,
            reason=reason,
            only_if=Q(proposed_by=str(by)),
            ending=Ending.CANCELED,
            ending_reason=reason,
            decided_at=Now(),
            **FRESH_WORK,
        )
    except NotPossible as refusal:
        snapshot = _snapshot_of(refusal)
        if snapshot.proposed_by != str(by):
            raise NotAllowed("Only the agent that proposed a transaction can cancel it.") from None
        if snapshot.ending == Ending.CANCELED:
            return snapshot
        raise _already_decided(snapshot) from None


def cancel_request(key: str, *, by: Principal, via: str, reason: str = "") -> Transaction | None:
    """Cancel by idempotency key, also when the prepare itself has not arrived yet.

    Such a late prepare is then refused. Returns the canceled transaction, if there is one.
    """
    if not key or len(key) > KEY_MAX:
        raise IdempotencyKeyMissing(f"An Idempotency-Key has 1 to {KEY_MAX} characters.")
    intents.refuse_unsafe_text(key)
    with entries.admitted(by, "", route=PREPARE_ROUTE, key=key, operation_key="") as known:
        if known.key_status is None:
            tombstone = IdempotencyKey(
                agent=str(by), route=PREPARE_ROUTE, key=key, status=CanceledBefore.status
            )
            entries.remember(tombstone)
            return None
    if known.key_transaction_id is None:
        return None
    return cancel(known.key_transaction_id, by=by, via=via, reason=reason)


def expire(transaction_id: UUID) -> Transaction:
    """Let a transaction lapse whose time is up by the database's clock."""
    return advance(
        transaction_id,
        states.EXPIRE,
        by=SWEEPER,
        via="system",
        reason="Nobody decided in time.",
        only_if=Q(expires_at__lte=Now()),
        ending=Ending.EXPIRED,
        ending_reason="Nobody decided in time; silence is not consent.",
        decided_at=Now(),
        **FRESH_WORK,
    )


def approve_by_policy(transaction_id: UUID, digest: str) -> Transaction:
    """Sign off what a contract lets pass without a person, and say so in the record."""
    return _decide(
        transaction_id,
        Verdict.APPROVE,
        digest=digest,
        by=POLICY,
        via="system",
        reason="The contract asks for no approver.",
    )


def resolve(
    transaction_id: UUID,
    *,
    outcome: str,
    by: Principal,
    via: str,
    reason: str,
    receipt: str = "",
) -> Transaction:
    """Say what became of a transaction in doubt, on a person's word.

    ``outcome`` is ``committed`` (needs the receipt), ``nothing_happened`` or ``retry`` (only for
    retry-safe tools). The fencing token is raised, so a worker that comes back late is void.
    """
    if not reason.strip():
        raise InvalidRequest("Say how you know: the reason is kept in the audit log.")
    _check_reason(reason)
    intents.refuse_unsafe_text(receipt, "receipt")
    fence = {"fencing_token": F("fencing_token") + 1, "lease_expires_at": None}
    not_own = ~Q(proposed_by=str(by))
    said: dict[str, Any] = {"by": by, "via": via, "reason": reason, "only_if": not_own}
    if outcome == "committed":
        if not receipt.strip():
            raise InvalidRequest("Without a receipt nothing counts as committed.")
        details = {"receipt": receipt[:500]}
        return advance(
            transaction_id, states.COMMIT, details=details, receipt=receipt[:500],
            ended_at=Now(), next_attempt_at=None, **fence, **said,
        )  # fmt: skip
    if outcome == "nothing_happened":
        changes = FRESH_WORK | fence | {"ending": Ending.FAILED, "ending_reason": reason}
        return advance(transaction_id, states.DISPROVE, **changes, **said)
    if outcome == "retry":
        return _allow_another_run(transaction_id, **said)
    raise InvalidRequest(f"{outcome!r:.40} is not an outcome.")


def compensate(transaction_id: UUID, *, by: Principal, via: str, reason: str) -> Transaction:
    """Make up for a committed transaction, by the tool's own compensation."""
    if not reason.strip():
        raise InvalidRequest("A compensation needs a reason.")
    _check_reason(reason)
    row = Transaction.objects.filter(pk=transaction_id).first()
    if row is None:
        raise NotFound()
    if not tool_named(row.tool).has("compensate"):
        raise NotPossible(f"{row.tool} declares no compensation.", snapshot=row)
    return advance(
        transaction_id,
        states.COMPENSATE,
        by=by,
        via=via,
        reason=reason,
        only_if=~Q(proposed_by=str(by)),
        error="",
        **FRESH_WORK,
    )


# --- prepare, step by step -----------------------------------------------------------------


def _allowed_ttl(ttl: timedelta | None, tool: Tool[Any, Any]) -> timedelta:
    contract = tool.contract
    if ttl is None:
        return contract.ttl
    if not contract.min_ttl <= ttl <= contract.max_ttl:
        raise InvalidRequest(
            f"ttl_s must lie between {contract.min_ttl.total_seconds():.0f} and "
            f"{contract.max_ttl.total_seconds():.0f} seconds for {tool.name}."
        )
    return ttl


def _sign_contract(row: Transaction, tool: Tool[Any, Any]) -> None:
    """Copy the contract as it stands: a later edit of the tool changes no transaction."""
    contract = tool.contract
    row.tool = tool.name
    row.owner_service = contract.owner_service
    row.risk_level = contract.risk_level.value
    row.required_approver = contract.required_approver.value
    row.consequence_level = contract.consequence_level.value
    row.quorum = contract.quorum


def _plan(row: Transaction, tool: Tool[Any, Any], arguments: BaseModel) -> PlanRefused | None:
    """Fill in what the approver will see. Returns the tool's refusal, if it refuses."""
    context = Context(
        transaction_id=row.pk,
        tenant=row.tenant,
        operation_key=row.operation_key,
        timeout=tool.contract.timeout,
    )
    row.arguments = arguments.model_dump(mode="json")
    try:
        plan = tool.make_plan(arguments, context)
    except PlanRefused as refusal:
        row.action_summary = f"{tool.name}: {refusal.detail}"[:3000]
        return refusal
    except LedgerError:
        raise
    except Exception as failure:
        raise PlanFailed(f"{tool.name} could not plan: {type(failure).__name__}.") from failure
    _take_over(row, tool, plan)
    return None


def _take_over(row: Transaction, tool: Tool[Any, Any], plan: Plan) -> None:
    row.action_summary = plan.summary
    row.warnings = [str(warning)[:1000] for warning in plan.warnings][:20]
    intents.refuse_unsafe_text([row.action_summary, row.warnings], "the plan")
    row.amount, row.currency = plan.amount, plan.currency if plan.amount is not None else ""
    if plan.arguments is not None:
        row.arguments = tool.validate(dict(plan.arguments)).model_dump(mode="json")
        intents.refuse_unsafe_text(row.arguments)
    row.held = dict(plan.held or {})
    row.hold_expires_at = plan.hold_expires_at


def _enter_prepared(
    row: Transaction,
    note: IdempotencyKey,
    *,
    by: Principal,
    via: str,
    render: Render,
    admission: entries.Admission,
) -> Answer:
    row.state = State.PREPARED
    note.answer = render(row, None)
    try:
        entries.enter(row, states.PREPARE, by=by, via=via, key=note, admission=admission)
    except IntegrityError:
        return _answer_after_losing(row, note, render)
    if row.required_approver == RequiredApprover.NONE:
        approve_by_policy(row.pk, row.intent_digest)
    return Answer(note.status, note.answer, row.pk)


def _enter_refused(
    row: Transaction,
    refusal: PlanRefused,
    note: IdempotencyKey,
    *,
    by: Principal,
    via: str,
    admission: entries.Admission,
) -> Answer:
    """Keep the refusal: an agent that asks again with the key is told the same."""
    row.state = State.REFUSED
    row.ended_at = row.created_at
    row.ending_reason = row.error = refusal.detail[:2000]
    intents.refuse_unsafe_text([row.error, row.action_summary])
    note.status = refusal.status
    note.answer = refusal.detail[:2000]
    entries.enter(row, states.REFUSE, by=by, via=via, key=note, admission=admission)
    raise PlanRefused(refusal.detail, transaction_id=str(row.pk))


def _replay(known: entries.Admission, fingerprint: str) -> Answer:
    if known.key_status == CanceledBefore.status and known.key_transaction_id is None:
        raise CanceledBefore()
    if known.key_hash != fingerprint:
        raise IdempotencyKeyReused()
    if known.key_status == PlanRefused.status:
        raise PlanRefused(known.key_answer or "", transaction_id=str(known.key_transaction_id))
    return Answer(
        known.key_status or 201, known.key_answer or "", known.key_transaction_id, is_replay=True
    )


def _answer_with_holder(
    holder_id: UUID, input_hash: str, note: IdempotencyKey, render: Render
) -> Answer:
    """The operation is live already: the same input gets the same transaction, another a 409."""
    holder = Transaction.objects.get(pk=holder_id)
    if holder.input_hash != input_hash:
        raise OperationKeyConflict(
            "Another transaction has this operation key, with another input.",
            snapshot=holder,
            duplicate_of=str(holder.pk),
            operation_key=holder.operation_key,
            live_input_hash=holder.input_hash,
            your_input_hash=input_hash,
        )
    note.status, note.transaction_id = 200, holder.pk
    note.answer = render(holder, holder.pk)
    entries.remember(note)
    return Answer(note.status, note.answer, holder.pk)


def _answer_after_losing(row: Transaction, note: IdempotencyKey, render: Render) -> Answer:
    """Between our look and our INSERT somebody else took the key or the operation."""
    taken = IdempotencyKey.objects.filter(agent=note.agent, route=note.route, key=note.key).first()
    if taken is not None:
        raise InProgress()
    holder = Transaction.objects.holding(row.tenant, row.operation_key).first()
    if holder is None:
        raise InProgress()
    return _answer_with_holder(holder.pk, row.input_hash, note, render)


# --- decisions, step by step ---------------------------------------------------------------


def _decide(
    transaction_id: UUID, verdict: Verdict, *, digest: str, by: Principal, via: str, reason: str
) -> Transaction:
    _check_reason(reason)
    try:
        with atomic():
            return _vote(transaction_id, verdict, digest=digest, by=by, via=via, reason=reason)
    except NotPossible as refusal:
        return _same_again_or_refuse(_snapshot_of(refusal), verdict, digest, by)


def _vote(
    transaction_id: UUID, verdict: Verdict, *, digest: str, by: Principal, via: str, reason: str
) -> Transaction:
    open_for_decision = Q(intent_digest=digest, state=State.PREPARED, expires_at__gt=Now())
    row = (
        Transaction.objects.select_for_update()
        .filter(open_for_decision & ~Q(proposed_by=str(by)), pk=transaction_id)
        .first()
    )
    if row is None:
        raise NotPossible(snapshot=Transaction.objects.filter(pk=transaction_id).first())
    _check_may_decide(row, by)
    votes = list(row.decisions.values_list("principal", "intent_digest", "verdict"))
    if any(principal == str(by) for principal, *_ in votes):
        raise NotPossible(snapshot=row)
    Decision.objects.create(
        transaction=row,
        principal=str(by),
        principal_name=by.display_name,
        verdict=verdict,
        intent_digest=digest,
        via=via,
        reason=reason,
    )
    said: dict[str, Any] = {"by": by, "via": via, "reason": reason}
    said["details"] = {"intent_digest": digest}
    if verdict == Verdict.REJECT:
        ending = {"ending": Ending.REJECTED, "ending_reason": reason, "decided_at": Now()}
        return advance(row.pk, states.REJECT, **ending, **FRESH_WORK, **said)
    in_favour = sum(vote[1:] == (digest, Verdict.APPROVE) for vote in votes) + 1
    if in_favour < row.quorum and by != POLICY:
        return advance(row.pk, states.VOTE, **said)
    return advance(row.pk, states.APPROVE, decided_at=Now(), **FRESH_WORK, **said)


def _check_may_decide(row: Transaction, by: Principal) -> None:
    """The floor under every surface: the contract says what kind of principal it takes."""
    allowed = {
        RequiredApprover.NONE: {"system", "user"},
        RequiredApprover.SUPERVISOR: {"agent", "user"},
        RequiredApprover.HUMAN: {"user"},
    }[RequiredApprover(row.required_approver)]
    if by.kind not in allowed:
        raise NotAllowed(
            f"The contract of {row.tool} asks for a person to decide."
            if by.kind == "agent"
            else f"The contract of {row.tool} asks for an approver."
        )


def _same_again_or_refuse(
    snapshot: Transaction, verdict: Verdict, digest: str, by: Principal
) -> Transaction:
    if snapshot.proposed_by == str(by):
        raise OwnTransaction(transaction_id=str(snapshot.pk))
    mine = snapshot.decisions.filter(principal=str(by)).first()
    if mine is not None and (mine.verdict, mine.intent_digest) == (verdict, digest):
        return snapshot
    if snapshot.state != State.PREPARED:
        raise _already_decided(snapshot)
    if snapshot.intent_digest != digest:
        raise DigestMismatch(snapshot=snapshot, intent_digest=snapshot.intent_digest)
    if mine is not None:
        raise AlreadyDecided(f"You have {mine.get_verdict_display()} it.", snapshot=snapshot)
    raise Expired("Its time was up; nobody can decide on it any more.", snapshot=snapshot)


def _already_decided(snapshot: Transaction) -> NotPossible:
    """Who decided what, when and through which channel."""
    decisive = ("approved", "rejected", "expired", "canceled", "refused")
    event = snapshot.events.filter(kind__in=decisive).order_by("-seq").first()
    if event is None:
        return AlreadyDecided(f"It is {snapshot.get_state_display()}.", snapshot=snapshot)
    error = Expired if event.kind == "expired" else AlreadyDecided
    return error(
        f"{event.kind.capitalize()} by {event.principal_name} via {event.via} "
        f"at {event.at:%Y-%m-%d %H:%M:%S} UTC.",
        snapshot=snapshot,
        decided_by=event.principal,
        decided_by_name=event.principal_name,
        decision=event.kind,
        decided_via=event.via,
        decided_at=event.at.isoformat(),
        state=snapshot.state,
    )


def _snapshot_of(refusal: NotPossible) -> Transaction:
    if refusal.snapshot is None:
        raise NotFound() from refusal
    return refusal.snapshot


def _check_reason(reason: str) -> None:
    if len(reason) > REASON_MAX:
        raise InvalidRequest(f"A reason has at most {REASON_MAX} characters.")
    intents.refuse_unsafe_text(reason, "reason")


def _allow_another_run(transaction_id: UUID, **said: Any) -> Transaction:
    """Let a worker run it again with the same operation key; the world counts it as one."""
    row = Transaction.objects.filter(pk=transaction_id).first()
    if row is None:
        raise NotFound()
    if not tool_named(row.tool).contract.retry_safe:
        raise NotPossible(
            f"{row.tool} is not retry-safe: running it again could do it twice.", snapshot=row
        )
    return advance(transaction_id, states.ORDER_RETRY, attempts=0, next_attempt_at=Now(), **said)
