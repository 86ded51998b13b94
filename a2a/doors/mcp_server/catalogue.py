"""The tools that a caller finds: its catalogue, and four of Assent itself."""

from __future__ import annotations

from typing import Any

from a2a.models.builtin_skills import ASK_A_PERSON
from ledger.agents import Caller
from ledger.contracts import ConsequenceLevel, ReadonlyTool, RequiredApprover, Tool
from ledger.models import Scope
from ledger.tools import readonly_tools_of, tools_of

WAIT, ANSWER, CANCEL, ASK = "assent_wait", "assent_answer", "assent_cancel", ASK_A_PERSON.id
OWN = frozenset({WAIT, ANSWER, CANCEL, ASK})
LONGEST_HOLD_S = 50  # below the minute after which many clients give up
# Arguments beside those of each tool with effects: what the approver reads, and what was sent back.
REASON, REASON_MAX, REPLACES = "assent_reason", 2000, "assent_replaces"
Json = dict[str, Any]

INSTRUCTIONS = (
    "Tools here act only after people have signed off. A call may answer status 'pending': then "
    "call assent_wait with its transaction_id, as often as needed, and do not call the tool "
    "again. Where an answer has a question, answer it with assent_answer. Follow do_not_retry in "
    "every answer. assent_cancel withdraws what nobody has decided."
)
_ID = {
    "type": "string",
    "format": "uuid",
    "description": "The transaction_id or task_id of an earlier answer.",
}


def tools_for(caller: Caller) -> list[Json]:
    """Every tool that the caller may use, as ``tools/list`` has them."""
    return [
        *(
            _tool(tool)
            for name, tool in tools_of([caller.tenant]).items()
            if name not in OWN and caller.may_use(name)
        ),
        *(
            _readonly_tool(tool)
            for name, tool in readonly_tools_of([caller.tenant]).items()
            if name not in OWN and caller.may_use(name)
        ),
        *([_ask()] if Scope.SUBMIT in caller.scopes else []),
        _wait(),
        _answer(),
        _cancel(),
    ]


def _tool(tool: Tool[Any, Any]) -> Json:
    reversible = tool.contract.consequence_level == ConsequenceLevel.REVERSIBLE
    return {
        "name": tool.name,
        "description": f"{tool.description}\n\n{_sign_off(tool)}".strip(),
        "inputSchema": _with_ours(tool.arguments_model.model_json_schema()),
        "annotations": {
            "readOnlyHint": False,
            "destructiveHint": not reversible,
            "idempotentHint": True,  # the same operation is carried out once
            "openWorldHint": True,
        },
    }


def _sign_off(tool: Tool[Any, Any]) -> str:
    contract = tool.contract
    if contract.required_approver == RequiredApprover.NONE:
        return "Carried out without sign-off, and recorded."
    who = "people" if contract.required_approver == RequiredApprover.HUMAN else "supervisors"
    number = f"{contract.quorum} {who}" if contract.quorum > 1 else "a person"
    if contract.required_approver == RequiredApprover.SUPERVISOR and contract.quorum == 1:
        number = "a supervising agent or a person"
    return f"Needs sign-off by {number}: it may take minutes or hours."


def _with_ours(schema: Json) -> Json:
    """An argument of the tool itself comes before ours of that name."""
    ours = {
        REASON: {
            "type": "string",
            "maxLength": REASON_MAX,
            "description": "Why you want this. Whoever signs off reads it.",
        },
        REPLACES: {
            "type": "string",
            "format": "uuid",
            "description": "The transaction_id of what was sent back to you, where this is the "
            "same with the changes that were asked for.",
        },
    }
    return {**schema, "properties": {**ours, **schema.get("properties", {})}}


def _readonly_tool(tool: ReadonlyTool) -> Json:
    return {
        "name": tool.name,
        "description": tool.description,
        "inputSchema": tool.arguments_model.model_json_schema(),
        "annotations": {"readOnlyHint": True, "openWorldHint": True},
    }


def _ask() -> Json:
    return {
        "name": ASK,
        "description": f"{ASK_A_PERSON.description} It may take minutes or hours.",
        "inputSchema": ASK_A_PERSON.input_schema,
        "annotations": {"readOnlyHint": False, "destructiveHint": False, "openWorldHint": False},
    }


def _wait() -> Json:
    seconds = {"type": "number", "minimum": 0, "maximum": LONGEST_HOLD_S, "default": LONGEST_HOLD_S}
    return {
        "name": WAIT,
        "description": "Wait for the outcome of an earlier call that answered 'pending', and "
        "return it: a receipt, or why it was refused. A question of whoever signs off is returned "
        "at once: answer it with assent_answer. Repeat it while the status is 'pending'.",
        "inputSchema": _object({"transaction_id": _ID, "seconds": seconds}),
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    }


def _answer() -> Json:
    text = {"type": "string", "minLength": 1, "maxLength": REASON_MAX}
    return {
        "name": ANSWER,
        "description": "Answer the question that whoever signs off has about an earlier call. They "
        "read the text as it is.",
        "inputSchema": _object({"transaction_id": _ID, "text": text}, "text"),
        "annotations": {"readOnlyHint": False, "destructiveHint": False, "idempotentHint": True},
    }


def _cancel() -> Json:
    reason = {"type": "string", "maxLength": REASON_MAX}
    return {
        "name": CANCEL,
        "description": "Withdraw an earlier call, as long as nobody has decided on it.",
        "inputSchema": _object({"transaction_id": _ID, "reason": reason}),
        "annotations": {"readOnlyHint": False, "destructiveHint": False, "idempotentHint": True},
    }


def _object(properties: Json, *required: str) -> Json:
    return {
        "type": "object",
        "properties": properties,
        "required": ["transaction_id", *required],
        "additionalProperties": False,
    }
