"""Function calls that Assent carries out with a tool of its own, since an operator bound them.

Their client would run its own function at ``approved: true``. So it never gets that: it is denied,
with a comment that has the receipt, or that says how it ended else.
"""

from __future__ import annotations

import hashlib
import json
from datetime import timedelta
from typing import Any

from django.utils import timezone

from a2a.doors.humanlayer import notes
from a2a.doors.humanlayer.bodies import Channel, FunctionCall, Json
from a2a.doors.humanlayer.calls import bindings
from a2a.doors.humanlayer.models import BoundCall
from a2a.errors import CallIdTaken
from ledger import seals
from ledger.agents import Caller
from ledger.api import render_token
from ledger.contracts import Contract
from ledger.errors import (
    IdempotencyKeyReused,
    InvalidRequest,
    LedgerError,
    NotPossible,
    PlanRefused,
    UnknownTool,
)
from ledger.models import IdempotencyKey, Transaction
from ledger.principals import Surface
from ledger.states import State
from ledger.tools import tool_named
from ledger.transactions import OutcomeKind, outcome_of
from ledger.transactions.coordinator import PREPARE_ROUTE, Proposal, prepare

KEY_PREFIX = "humanlayer:"  # of the idempotency keys of calls
# What another attempt at the same call would meet again: the call ends with it.
FINAL_REFUSALS = (InvalidRequest, NotPossible, UnknownTool)
# For which the client waits on while it is looked up whether a call in doubt took effect.
LOOKED_UP_FOR = timedelta(minutes=10)
RESULT_MAX = 2000  # characters of a result that go into the comment
NOT_YOURSELF = "Do not run it yourself."
NOTHING_DONE = "Nothing was carried out."


def known(agent: str, key: str) -> BoundCall | None:
    return BoundCall.objects.filter(agent=agent, key=key).first()


def begin(caller: Caller, call: FunctionCall, spec: Json, key: str) -> BoundCall | None:
    """The call, if a tool stands in for its function: as it was when it came first.

    What is bound, or bound to another tool, after that changes nothing for it. Raises
    ``CallIdTaken`` for another call of the same id.
    """
    sha256 = _sha256(call.run_id, spec)
    row = known(str(caller.principal), key) or _kept(caller, call, spec, key, sha256)
    if row is not None and row.sha256 != sha256:
        raise CallIdTaken()
    return row


def _kept(
    caller: Caller, call: FunctionCall, spec: Json, key: str, sha256: str
) -> BoundCall | None:
    agent = str(caller.principal)
    if IdempotencyKey.objects.filter(agent=agent, route=PREPARE_ROUTE, key=key).exists():
        return None  # it came before its function was bound
    name = bindings.tool_for(caller.principal, caller.tenant, call.spec.fn)
    if not name:
        return None
    seals.refuse_unsafe_text(spec.get("channel"), "channel")  # people are shown it
    tool = tool_named(caller.tenant, name)
    retention = (tool.contract if tool is not None else Contract()).retention
    columns = {
        "tool": name,
        "run_id": call.run_id,
        "spec": spec,
        "sha256": sha256,
        "retain_until": timezone.now() + retention,
    }
    return BoundCall.objects.get_or_create(agent=agent, key=key, defaults=columns)[0]


def _sha256(run_id: str, spec: Json) -> str:
    text = json.dumps([run_id, spec], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def propose(caller: Caller, call: FunctionCall, row: BoundCall) -> None:
    """Put the call before people as a transaction of its tool; again if it was begun before.

    What the tool cannot take is kept as the end of the call. Raises the other ``LedgerError``.
    """
    if row.refusal:
        return
    try:
        _refuse_if_not_allowed(caller, row.tool)
        prepare(
            Proposal(row.tool, call.spec.arguments, run_id=call.run_id),
            by=caller.principal,
            tenant=caller.tenant,
            key=row.key,
            via=Surface("humanlayer"),
            render=render_token,
        )
    except PlanRefused:
        return  # kept as a transaction
    except IdempotencyKeyReused:
        raise CallIdTaken() from None
    except FINAL_REFUSALS as refusal:
        BoundCall.objects.filter(pk=row.pk, refusal="").update(refusal=_refusal_text(refusal))


def _refuse_if_not_allowed(caller: Caller, tool: str) -> None:
    if not caller.may_use(tool):
        raise UnknownTool("This agent may not use the tool that carries the function out.")


def _refusal_text(refusal: LedgerError) -> str:
    errors = refusal.extra.get("errors") or []
    fields = "; ".join(f"{error['field']}: {error['message']}" for error in errors[:5])
    return " ".join(filter(None, [NOTHING_DONE, refusal.detail, fields and f"{fields}."]))[:2000]


def call_behind(row: Transaction) -> BoundCall | None:
    """The call that the transaction was asked for as."""
    keys = IdempotencyKey.objects.filter(
        transaction=row, route=PREPARE_ROUTE, key__startswith=KEY_PREFIX
    )
    agent_and_key = keys.order_by("pk").values_list("agent", "key").first()
    return known(*agent_and_key) if agent_and_key else None


def function_of(row: BoundCall) -> str:
    """Empty once the content of the call is erased."""
    return str(row.spec.get("fn", ""))


def asked_for(row: BoundCall) -> list[str]:
    """Facts for people besides the call's arguments: whom its client wanted to reach."""
    channel = row.spec.get("channel")
    return list(notes.of_channel(Channel.model_validate(channel))) if channel else []


# --- as the client reads it ----------------------------------------------------------------------


def rendered_spec(row: BoundCall) -> Json:
    """As it was sent; after its erasure what a client can still read."""
    return {"fn": "", "kwargs": {}, **row.spec}


def verdict(row: Transaction) -> tuple[bool | None, str | None]:
    """Never approved: denied with words once nothing more is to be waited for."""
    outcome = outcome_of(row)
    if outcome.kind == OutcomeKind.SUCCEEDED:
        return False, _done(row)
    if outcome.kind == OutcomeKind.IN_DOUBT:
        return (None, None) if _is_looked_up(row) else (False, f"{outcome.sentence} {NOT_YOURSELF}")
    if outcome.kind == OutcomeKind.PENDING:
        return None, None
    return False, outcome.sentence


def _done(row: Transaction) -> str:
    done = f"Done by Assent: {row.receipt}. {NOT_YOURSELF}"
    result = json.dumps(row.result, ensure_ascii=False) if row.result is not None else ""
    return f"{done} The result: {result}" if 0 < len(result) <= RESULT_MAX else done


def _is_looked_up(row: Transaction) -> bool:
    """True if a worker still finds out whether it took effect, and has not for long."""
    since = row.decided_at or row.created_at
    is_recent = timezone.now() - since < LOOKED_UP_FOR
    return row.state == State.IN_DOUBT and row.next_attempt_at is not None and is_recent


def about(row: BoundCall, transaction: Transaction | None) -> dict[str, Any]:
    """Additions to our answers: who carries it out, and with what."""
    told: dict[str, Any] = {"carried_out_by": "assent", "tool": row.tool}
    if transaction is not None:
        told["outcome"] = outcome_of(transaction).as_json()
        told["receipt"] = transaction.receipt
    return told
