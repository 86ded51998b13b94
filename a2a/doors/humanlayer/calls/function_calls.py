"""Function calls: transactions that people sign off, and that the agent then carries out itself."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from a2a.doors.humanlayer import notes
from a2a.doors.humanlayer.bodies import (
    FunctionCall,
    Json,
    Option,
    escalation_in,
    options_of,
    read,
    refuse_responders,
    without_secrets,
)
from a2a.doors.humanlayer.calls import bound_calls, tool as handed_over
from a2a.doors.humanlayer.calls.tool import HandedOverCall
from a2a.doors.humanlayer.models import BoundCall
from a2a.errors import CallIdTaken
from ledger.agents import Caller, unknown
from ledger.api import render_token, terms_of
from ledger.api.http import address_of
from ledger.errors import IdempotencyKeyReused, NotFound
from ledger.models import IdempotencyKey, Scope, Transaction, Verdict
from ledger.principals import Surface
from ledger.states import Ending, State
from ledger.tools import is_for_agent, tool_named
from ledger.transactions import coordinator, outcome_of
from ledger.transactions.coordinator import PREPARE_ROUTE, Proposal, prepare

KEY_PREFIX = bound_calls.KEY_PREFIX
NO_REASON = "No reason given."
# Signed off and not handed over: it was changed since, and a worker is finding that out.
UNDECIDED = frozenset({State.PREPARED, State.APPROVED, State.COMMITTING})

# Whether it was approved, and the comment.
Told = tuple[bool | None, str | None]


def create(caller: Caller, body: Any) -> Json:
    """Put a call before people; the same call again is answered with how it stands.

    Raises ``CallIdTaken`` for another call of the same id, and the ``LedgerError`` of a proposal.
    """
    caller.require(Scope.PROPOSE)
    call = read(FunctionCall, body)
    refuse_responders(call.spec.channel)
    name = handed_over.tool_name_of(call.spec.fn)
    if not caller.may_use(name):
        raise unknown(name)
    spec = without_secrets(body["spec"])
    bound = bound_calls.begin(caller, call, spec, _key(call.call_id))
    if bound is not None:
        bound_calls.propose(caller, call, bound)
        return read_one(caller, call.call_id)
    return rendered(_prepared(caller, call, _tool(caller, name, call, spec)), call.call_id)


def _tool(caller: Caller, name: str, call: FunctionCall, spec: Json) -> HandedOverCall:
    kept = {member: value for member, value in spec.items() if member not in {"fn", "kwargs"}}
    return HandedOverCall(
        name,
        operation_key=f"humanlayer:{caller.principal}:{call.call_id}",
        warnings=notes.of_call(
            call.spec, has_namesake=tool_named(caller.tenant, call.spec.fn) is not None
        ),
        kept=kept,
    )


def _prepared(caller: Caller, call: FunctionCall, tool: HandedOverCall) -> Transaction:
    try:
        answer = prepare(
            Proposal(tool.name, call.spec.arguments, run_id=call.run_id),
            by=caller.principal,
            tenant=caller.tenant,
            key=_key(call.call_id),
            via=Surface("humanlayer"),
            render=render_token,
            tool=tool,
        )
    except IdempotencyKeyReused:
        raise CallIdTaken() from None
    assert answer.transaction_id is not None
    row = Transaction.objects.get(pk=answer.transaction_id)
    if answer.is_replay and row.content_erased_at is None and row.held != tool.kept:
        raise CallIdTaken()
    return row


def read_one(caller: Caller, call_id: str) -> Json:
    """The present state of a call of the agent. Raises ``NotFound``."""
    row = _transaction_of(caller, call_id)
    if row is not None and is_for_agent(row):
        return rendered(row, call_id)
    bound = bound_calls.known(str(caller.principal), _key(call_id))
    if bound is None or (row is None and not bound.refusal):
        raise NotFound()
    return _rendered_bound(bound, row, call_id)


def told(row: Transaction, call_id: str) -> Json:
    """The call of this id that the transaction stands for, as its client reads it."""
    bound = bound_calls.known(row.proposed_by, _key(call_id))
    if bound is None or is_for_agent(row):
        return rendered(row, call_id)
    return _rendered_bound(bound, row, call_id)


def escalate(caller: Caller, call_id: str, body: Any) -> Json:
    """Tell people again, with the agent's words. Raises ``NotPossible`` once it is decided."""
    row = row_of(caller, call_id)
    reason = escalation_in(body)
    coordinator.escalate(row.pk, by=caller.principal, via=Surface("humanlayer"), reason=reason)
    return read_one(caller, call_id)


def row_of(caller: Caller, call_id: str) -> Transaction:
    """The transaction of a call of the agent. Raises ``NotFound``."""
    row = _transaction_of(caller, call_id)
    if row is None or not (
        is_for_agent(row) or bound_calls.known(str(caller.principal), _key(call_id))
    ):
        raise NotFound()
    return row


def _transaction_of(caller: Caller, call_id: str) -> Transaction | None:
    """By the unique index of idempotency keys: ids are unique per agent."""
    caller.require(Scope.PROPOSE)
    keys = IdempotencyKey.objects.select_related("transaction").filter(
        agent=str(caller.principal), route=PREPARE_ROUTE, key=_key(call_id)
    )
    key = keys.first()
    return key.transaction if key is not None else None


def _key(call_id: str) -> str:
    return f"{KEY_PREFIX}{call_id}"


# --- as the client reads it ----------------------------------------------------------------------


def rendered(row: Transaction, call_id: str) -> Json:
    function = row.tool.removeprefix(handed_over.PREFIX)
    return {
        "run_id": row.run_id,
        "call_id": call_id,
        "spec": {"fn": function, "kwargs": row.payload, **row.held},
        "status": _status(row, row.held, _verdict(row)),
        "assent": _about(row),
    }


def _rendered_bound(bound: BoundCall, row: Transaction | None, call_id: str) -> Json:
    """A call that Assent carries out; without a transaction it was refused at once."""
    spec = bound_calls.rendered_spec(bound)
    told = bound_calls.about(bound, row)
    if row is None:
        status = _status_json(bound.created_at, bound.created_at, False, bound.refusal)
    else:
        told |= _about(row)
        status = _status(row, spec, bound_calls.verdict(row))
    return {
        "run_id": bound.run_id,
        "call_id": call_id,
        "spec": spec,
        "status": status,
        "assent": told,
    }


def _about(row: Transaction) -> Json:
    address = address_of(f"/transactions/{row.pk}/")
    about = {"transaction_id": str(row.pk), "url": address, "terms": terms_of(row)}
    return about | coordinator.requests_to_agent(row)


def _status(row: Transaction, spec: Json, verdict: Told) -> Json:
    approved, comment = verdict
    if row.ending in {Ending.REJECTED, Ending.SENT_BACK}:
        approved, comment = False, row.ending_reason.strip() or NO_REASON
    decided_at = None if approved is None else row.decided_at or row.ended_at
    chosen = _chosen(options_of(spec.get("reject_options")), row)
    return _status_json(row.created_at, decided_at, approved, comment, chosen)


def _status_json(
    asked_at: datetime,
    decided_at: datetime | None,
    approved: bool | None,
    comment: str | None,
    chosen: Option | None = None,
) -> Json:
    return {
        "requested_at": asked_at.isoformat(),
        "responded_at": decided_at.isoformat() if decided_at else None,
        "approved": approved,
        "comment": comment,
        "reject_option_name": chosen.name if chosen is not None else None,
        "slack_message_ts": None,
    }


def _verdict(row: Transaction) -> Told:
    """True if approved, and the words for the agent. A refusal never comes without words."""
    if row.state in UNDECIDED:
        return None, None
    if row.state == State.HANDED_OVER:
        approval = row.decisions.filter(verdict=Verdict.APPROVE).exclude(reason="").last()
        return True, approval.reason if approval is not None else None
    return False, outcome_of(row).sentence


def options_offered(spec: Json) -> list[Option]:
    """The options that the client offers to say when it is rejected."""
    return options_of(spec.get("reject_options"))


def _chosen(options: list[Option], row: Transaction) -> Option | None:
    """The option whose text the reason of a rejection begins with; of several, the longest."""
    if row.ending != Ending.REJECTED:
        return None
    fitting = [option for option in options if row.ending_reason.startswith(option.text)]
    return max(fitting, key=lambda option: len(option.text), default=None)
