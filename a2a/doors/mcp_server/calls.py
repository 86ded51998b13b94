"""The work of the tools, in a thread: propose, read, ask, answer, look, withdraw. None decides."""

from __future__ import annotations

import hashlib
import json
from typing import Any
from uuid import UUID, uuid4

from a2a import submissions, tasks
from a2a.doors.mcp_server.catalogue import (
    ANSWER,
    ASK,
    CANCEL,
    REASON,
    REASON_MAX,
    REPLACES,
    WAIT,
)
from a2a.doors.mcp_server.requests import INVALID_PARAMS, Fault, Json
from a2a.doors.mcp_server.resource import RESOURCE
from a2a.doors.mcp_server.statuses import Standing, of_task, refusal_of, result_of, standing_of
from a2a.errors import TaskNotPossible
from a2a.submissions import Submission
from ledger.agents import Caller, caller_with, unknown
from ledger.api import render_token
from ledger.api.fast.readings import ToolFailed, read_with
from ledger.api.http.polling import Pace, pace_of
from ledger.contracts import ReadonlyTool, Tool
from ledger.errors import AlreadyDecided, Expired, InvalidRequest, LedgerError, PlanRefused
from ledger.models import Scope, id_or_none
from ledger.principals import Surface
from ledger.tools import readonly_named, tool_named
from ledger.transactions import OutcomeForAgent, OutcomeKind, coordinator
from ledger.transactions.coordinator import Proposal

VIA = Surface("mcp")
# A client's own name for a call, in ``_meta``: whoever repeats it gets the same transaction.
OUR_KEY, CLAUDE_KEY = "assent/idempotency-key", "claudecode/toolUseId"
KEY_MAX = 200
READ = "It was read; nothing was changed. It may be read again."

# A standing may still change; a result is all there is to say.
Called = Standing | Json


def call(caller: Caller, name: str, arguments: Json, meta: Json) -> Called:
    """Call a tool. Raises ``Fault`` for one that the caller may not use, and ``LedgerError``."""
    if name == WAIT:
        return standing_of(caller, arguments.get("transaction_id"))
    if name == ANSWER:
        return _answer(caller, arguments)
    if name == CANCEL:
        reason = _reason(arguments, "reason")
        withdrawn = withdraw(caller, arguments.get("transaction_id"), reason)
        return withdrawn.as_result(wanted=OutcomeKind.WITHDRAWN)
    if name == ASK:
        return _ask(caller, arguments, meta)
    is_allowed = caller.may_use(name)
    readonly = readonly_named(caller.tenant, name) if is_allowed else None
    if readonly is not None:
        return _read(caller, readonly, arguments)
    tool = tool_named(caller.tenant, name) if is_allowed else None
    if tool is None:
        raise Fault(INVALID_PARAMS, str(unknown(name)))
    return _propose(caller, tool, arguments, meta)


def _propose(caller: Caller, tool: Tool[Any, Any], arguments: Json, meta: Json) -> Called:
    caller.require(Scope.PROPOSE)
    ours = {REASON, REPLACES} - {*tool.arguments_model.model_fields}
    given = {key: value for key, value in arguments.items() if key in ours}
    arguments = {key: value for key, value in arguments.items() if key not in ours}
    reason, replaces = _reason(given, REASON), _replaced(given)
    try:
        answer = coordinator.prepare(
            Proposal(tool=tool.name, arguments=arguments, reason=reason, replaces=replaces),
            by=caller.principal,
            tenant=caller.tenant,
            key=_key(meta),
            via=VIA,
            render=render_token,
        )
    except PlanRefused as refusal:
        return refusal_of(refusal)
    return standing_of(caller, answer.transaction_id)


def _read(caller: Caller, tool: ReadonlyTool, arguments: Json) -> Json:
    caller.require(Scope.PROPOSE)
    try:
        reading_id, text = read_with(caller, tool, arguments)
    except ToolFailed as failure:
        failed = OutcomeForAgent(OutcomeKind.FAILED, str(failure), do_not_retry=False)
        return result_of({"status": failed.kind.value, **failed.as_json()}, is_error=True)
    read = OutcomeForAgent(OutcomeKind.SUCCEEDED, READ, do_not_retry=False)
    body = {"status": read.kind.value, **read.as_json(), "reading_id": str(reading_id)}
    return result_of({**body, "result": json.loads(text)}, is_error=False)


def _answer(caller: Caller, arguments: Json) -> Standing:
    """The answer of whoever proposed it. Raises ``LedgerError``."""
    subject, text = standing_of(caller, arguments.get("transaction_id")), arguments.get("text")
    caller.require(Scope.PROPOSE)
    if subject.is_task or not isinstance(text, str):
        raise InvalidRequest(f"{ANSWER} takes the transaction_id of a proposal, and a text.")
    coordinator.answer(subject.subject, by=caller.principal, via=VIA, text=text)
    return standing_of(caller, subject.subject)


def _ask(caller: Caller, arguments: Json, meta: Json) -> Standing:
    caller.require(Scope.SUBMIT)
    submission = Submission(skill=ASK, input=arguments, idempotency_key=_key(meta))
    return of_task(submissions.submit(submission, caller=caller, via=VIA).task)


def withdraw(caller: Caller, subject: Any, reason: str = "") -> Standing:
    """Withdraw what the caller proposed or asked. Raises ``LedgerError`` once it is decided."""
    standing = standing_of(caller, subject)
    if standing.is_task:
        tasks.cancel_as_client(
            tasks.visible(caller, standing.subject), caller=caller, via=VIA, reason=reason
        )
    else:
        caller.require(Scope.PROPOSE)
        coordinator.cancel(standing.subject, by=caller.principal, via=VIA, reason=reason)
    return standing_of(caller, standing.subject)


def withdraw_if_possible(caller: Caller, subject: Any) -> None:
    """``tasks/cancel``, which only asks for it: what is decided goes its way."""
    try:
        withdraw(caller, subject)
    except (AlreadyDecided, Expired, TaskNotPossible):
        return


def look(token: str, subject: UUID) -> Standing | None:
    """The standing now; ``None`` if the token, perhaps revoked by now, does not show it."""
    caller = caller_with(token, RESOURCE)
    try:
        return None if caller is None else standing_of(caller, subject)
    except LedgerError:
        return None


def poll(caller: Caller, subject: Any) -> tuple[Standing, bool]:
    """The standing now, and whether the agent asks too often for what has not ended."""
    standing = standing_of(caller, subject)
    is_too_fast = pace_of(caller, standing.subject) is Pace.REFUSED
    return standing, is_too_fast and not standing.is_final


def _replaced(arguments: Json) -> UUID | None:
    replaces = arguments.get(REPLACES)
    if replaces is None:
        return None
    if not isinstance(replaces, str) or (pk := id_or_none(replaces)) is None:
        raise InvalidRequest(f"{REPLACES} is the transaction_id of what was sent back.")
    return pk


def _reason(arguments: Json, name: str) -> str:
    reason = arguments.get(name) or ""
    if not isinstance(reason, str) or len(reason) > REASON_MAX:
        raise InvalidRequest(f"{name} is a text of at most {REASON_MAX} characters.")
    return reason


def _key(meta: Json) -> str:
    """The idempotency key of a call. Without a name of its own, the operation alone tells it."""
    if isinstance(own := meta.get(OUR_KEY), str) and own:
        return own
    if isinstance(use := meta.get(CLAUDE_KEY), str) and use:
        fits = len(use) <= KEY_MAX and use.isprintable()
        return f"mcp:{use if fits else hashlib.sha256(use.encode('utf-8', 'replace')).hexdigest()}"
    return f"mcp:{uuid4()}"
