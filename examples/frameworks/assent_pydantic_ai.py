"""Pydantic AI: the run ends with deferred calls, Assent carries out, the next run has the results.

    desk = Assent()
    agent = Agent(model, output_type=[str, DeferredToolRequests], toolsets=[toolset(desk)])
    result = agent.run_sync("…")
    if isinstance(result.output, DeferredToolRequests):
        waiting = prepare(desk, result.output, run_id)
        store(run_id, result.all_messages_json(), waiting)

Later, in any process, when Assent's webhook rings or from time to time:

    if results := settle(desk, waiting):
        result = agent.run_sync(message_history=…, deferred_tool_results=results)

``waiting`` is plain JSON. A process that died before it stored anything runs again from the start:
the ledger recognises the operation, and the second proposal is the first one's transaction.
"""

from __future__ import annotations

import json
from typing import Any

from assent_client import Assent, Refused, key_of
from pydantic_ai import DeferredToolRequests, DeferredToolResults, ExternalToolset, ToolFailed
from pydantic_ai.tools import ToolDefinition


def toolset(desk: Assent) -> ExternalToolset[Any]:
    """The catalogue as tools whose results come from outside."""
    return ExternalToolset(
        [
            ToolDefinition(
                name=tool.name,
                description=tool.description,
                parameters_json_schema=tool.schema,
            )
            for tool in desk.tools()
        ]
    )


def prepare(desk: Assent, requests: DeferredToolRequests, run_id: str) -> dict[str, Any]:
    """Propose each call: by the call's id what waits, or what the model is told already."""
    kinds = {tool.name: tool.kind for tool in desk.tools()}
    waiting: dict[str, Any] = {}
    for call in requests.calls:
        if call.tool_name in kinds:
            is_readonly = kinds[call.tool_name] == "readonly"
            key = key_of("pydantic-ai", run_id, call.tool_call_id)
            try:
                said = call.args_as_dict()
                if is_readonly:
                    waiting[call.tool_call_id] = {"result": desk.call(call.tool_name, said)}
                    continue
                intent = desk.prepare(call.tool_name, said, key=key, run_id=run_id)
                waiting[call.tool_call_id] = intent.as_dict()
            except Refused as refusal:
                waiting[call.tool_call_id] = {"refused": refusal.for_model()}
    return waiting


def settle(desk: Assent, waiting: dict[str, Any]) -> DeferredToolResults | None:
    """The results of all calls; ``None`` while one of them waits."""
    results: dict[str, Any] = {}
    for call_id, call in waiting.items():
        if "transaction_id" not in call:
            results[call_id] = _failed(call["refused"]) if "refused" in call else call["result"]
            continue
        outcome = desk.get(call["transaction_id"])
        if not outcome.is_final:
            return None
        told = outcome.for_model()
        results[call_id] = told if outcome.succeeded else _failed(told)
    return DeferredToolResults(calls=results)


def _failed(told: dict[str, Any]) -> ToolFailed:
    """A result that is an error. ``ModelRetry`` would invite the model to try again."""
    return ToolFailed(json.dumps(told))
