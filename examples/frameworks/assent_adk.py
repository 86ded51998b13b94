"""Google's Agent Development Kit: a long-running call ends the run, Assent carries out.

    desk = AsyncAssent()
    agent = Agent(name="helpdesk", model=…, tools=await tools(desk))
    app = App(name=…, root_agent=agent, resumability_config=ResumabilityConfig(is_resumable=True))

With a session service that outlives it, later, in any process, when Assent's webhook rings:

    session = await service.get_session(app_name=…, user_id=…, session_id=…)
    if message := await settle(desk, session):
        async for event in runner.run_async(user_id=…, session_id=…, new_message=message): …

The key of a proposal is the session's id and the call's id: a call that ADK runs again is the same
transaction.
"""

from __future__ import annotations

from typing import Any

from assent_client import AsyncAssent, Outcome, Refused, Tool, key_of
from google.adk.tools import BaseTool, ToolContext
from google.genai import types


class AssentTool(BaseTool):
    """A tool of the catalogue; one that changes the world waits for sign-off."""

    def __init__(self, desk: AsyncAssent, tool: Tool) -> None:
        waits = tool.kind != "readonly"
        super().__init__(name=tool.name, description=tool.description, is_long_running=waits)
        self.desk, self.schema = desk, tool.schema

    def _get_declaration(self) -> types.FunctionDeclaration:
        said = {"name": self.name, "description": self.description}
        return types.FunctionDeclaration(**said, parameters_json_schema=self.schema)

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> Any:
        """The response for the model; ``None`` ends the run until ``settle`` has one."""
        try:
            if not self.is_long_running:
                return {"result": await self.desk.call(self.name, args)}
            session, call = tool_context.session.id, str(tool_context.function_call_id)
            outcome = await prepare(self.desk, session, call, self.name, args)
        except Refused as refusal:
            return refusal.for_model()
        return outcome.for_model() if outcome.is_final else None


async def tools(desk: AsyncAssent) -> list[AssentTool]:
    return [AssentTool(desk, tool) for tool in await desk.tools()]


async def prepare(
    desk: AsyncAssent, session_id: str, call_id: str, tool: str, arguments: dict[str, Any]
) -> Outcome:
    """Propose a call, and say how it stands: the same call is the same transaction for ever."""
    key = key_of("adk", session_id, call_id)
    intent = await desk.prepare(tool, arguments, key=key, run_id=session_id)
    return await desk.get(intent.transaction_id)


async def settle(desk: AsyncAssent, session: Any) -> types.Content | None:
    """The responses to all calls that wait, as the next message; ``None`` while one is open."""
    ours = {tool.name for tool in await desk.tools()}
    calls, answered = {}, set()
    for event in session.events:
        answered |= {response.id for response in event.get_function_responses()}
        for call in event.get_function_calls():
            if call.id in (event.long_running_tool_ids or ()) and call.name in ours:
                calls[call.id] = call
    parts = []
    for call_id in calls.keys() - answered:
        call = calls[call_id]
        outcome = await prepare(desk, session.id, call_id, call.name, dict(call.args or {}))
        if not outcome.is_final:
            return None
        told = types.FunctionResponse(id=call_id, name=call.name, response=outcome.for_model())
        parts.append(types.Part(function_response=told))
    return types.Content(role="user", parts=parts) if parts else None
