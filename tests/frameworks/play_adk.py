from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from assent_adk import settle, tools
from google.adk.agents import LlmAgent
from google.adk.apps import App, ResumabilityConfig
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import Runner
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai import types
from play import RUN, AsyncDesk, Stage, call_id

WHO = {"user_id": "u1", "session_id": RUN}


class Model(BaseLlm):
    """Makes its calls at once, and says "done" when it has their results."""

    stage: Any

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncIterator[LlmResponse]:
        parts = [part for one in llm_request.contents for part in one.parts or ()]
        results = [part.function_response for part in parts if part.function_response]
        self.stage.told = {one.id: one.response for one in results}
        said = [types.Part(text="done")] if results else self.calls()
        yield LlmResponse(content=types.Content(role="model", parts=said))

    def calls(self) -> list[types.Part]:
        calls = [
            types.FunctionCall(id=call_id(number), name=call["tool"], args=call["arguments"])
            for number, call in enumerate(self.stage.calls)
        ]
        return [types.Part(function_call=call) for call in calls]


async def main() -> None:
    stage, desk = Stage(), AsyncDesk()
    model = Model(model="scripted", stage=stage)
    agent = LlmAgent(name="helpdesk", model=model, tools=await tools(desk))
    resumable = ResumabilityConfig(is_resumable=True)
    app = App(name="helpdesk", root_agent=agent, resumability_config=resumable)
    service = SqliteSessionService(str(stage.saved))
    runner = Runner(app=app, session_service=service)
    if stage.action == "start":
        await service.create_session(app_name="helpdesk", **WHO)
        more: Any = {"new_message": types.UserContent("Pay them.")}
    else:
        session = await service.get_session(app_name="helpdesk", **WHO)
        message = await settle(desk, session)
        if stage.action == "again":
            more = {"invocation_id": session.events[-1].invocation_id}
        elif message is None:
            return stage.end(len(open_calls(session)), text_of(session))
        else:
            more = {"new_message": message}
    async for _ in runner.run_async(**WHO, **more):
        pass
    session = await service.get_session(app_name="helpdesk", **WHO)
    return stage.end(len(open_calls(session)), text_of(session))


def open_calls(session: Any) -> set[str]:
    called, answered = set(), set()
    for event in session.events:
        called |= {call.id for call in event.get_function_calls()}
        answered |= {one.id for one in event.get_function_responses()}
    return called - answered


def text_of(session: Any) -> str:
    """The last text of the model."""
    contents = [event.content for event in session.events if event.author == "helpdesk"]
    texts = [part.text for one in contents if one for part in one.parts or () if part.text]
    return texts[-1] if texts else ""


asyncio.run(main())
