"""OpenAI Agents SDK: the run stops for approval, Assent carries out, the run goes on.

    agent = Agent(name="Helpdesk", tools=await tools(AsyncAssent(), run_id))
    result = await Runner.run(agent, "…")
    if result.interruptions:                      # calls that wait for sign-off
        store(run_id, result.to_state().to_string())

Later, in any process, when Assent's webhook rings or from time to time:

    state = await RunState.from_string(agent, stored)
    if await settle(desk, run_id, state):
        result = await Runner.run(agent, state)

The SDK has no results from outside: what was carried out is approved, and its tool, which carries
nothing out, returns the receipt. What anybody else approved fails.
"""

from __future__ import annotations

import json
from typing import Any

from agents import FunctionTool, RunState
from assent_client import AsyncAssent, Refused, Tool, key_of


async def tools(desk: AsyncAssent, run_id: str) -> list[FunctionTool]:
    """The catalogue as tools of one run; those that change the world wait for sign-off."""
    return [_tool(desk, run_id, tool) for tool in await desk.tools()]


async def prepare(
    desk: AsyncAssent, run_id: str, call_id: str, tool: str, arguments: str
) -> tuple[bool, dict[str, Any]]:
    """Propose a call: whether it has ended, and what the model is told. Safe to repeat."""
    key = key_of("openai-agents", run_id, call_id)
    try:
        intent = await desk.prepare(tool, json.loads(arguments or "{}"), key=key, run_id=run_id)
    except Refused as refusal:
        return True, refusal.for_model()
    except ValueError:
        return True, {"status": "refused", "message": "Not JSON.", "do_not_retry": False}
    outcome = await desk.get(intent.transaction_id)
    return outcome.is_final, outcome.for_model()


async def settle(desk: AsyncAssent, run_id: str, state: RunState[Any]) -> bool:
    """True if all calls have ended; then ``state`` knows how, and the run can go on."""
    ours = {tool.name for tool in await desk.tools()}
    items = [item for item in state.get_interruptions() if item.name in ours]
    ends = [await prepare(desk, run_id, one.call_id, one.name, one.arguments) for one in items]
    if not all(is_final for is_final, _ in ends):
        return False
    for item, (_, told) in zip(items, ends, strict=True):
        if told["status"] == "succeeded":
            state.approve(item)
        else:
            state.reject(item, rejection_message=json.dumps(told))
    return bool(items)


def _tool(desk: AsyncAssent, run_id: str, tool: Tool) -> FunctionTool:
    async def waits(_: Any, arguments: dict[str, Any], call_id: str) -> bool:
        return not (await prepare(desk, run_id, call_id, tool.name, json.dumps(arguments)))[0]

    async def invoke(context: Any, arguments: str) -> str:
        if tool.kind == "readonly":
            try:
                return json.dumps(await desk.call(tool.name, json.loads(arguments or "{}")))
            except Refused as refusal:
                return json.dumps(refusal.for_model())
        call_id = context.tool_call_id
        is_final, told = await prepare(desk, run_id, call_id, tool.name, arguments)
        if not is_final:  # somebody approved it, and not at the desk
            raise RuntimeError(told["message"])
        return json.dumps(told)

    gate = False if tool.kind == "readonly" else waits
    more = {"strict_json_schema": False, "needs_approval": gate}
    return FunctionTool(tool.name, tool.description, tool.schema, invoke, **more)
