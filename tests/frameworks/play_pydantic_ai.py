from __future__ import annotations

import json
from typing import Any

from assent_pydantic_ai import prepare, settle, toolset
from play import RUN, Desk, Stage, call_id
from pydantic_ai import Agent, DeferredToolRequests
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import FunctionModel


def main() -> None:
    stage, desk = Stage(), Desk()

    def model(messages: list[ModelMessage], _: Any) -> ModelResponse:
        """Makes its calls at once, and says "done" when it has their results."""
        results = [part for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
        stage.told = {part.tool_call_id: said_in(part.content) for part in results}
        if results:
            return ModelResponse(parts=[TextPart("done")])
        calls = [
            ToolCallPart(call["tool"], call["arguments"], call_id(number, stage.action))
            for number, call in enumerate(stage.calls)
        ]
        return ModelResponse(parts=calls)

    agent = Agent(
        FunctionModel(model), output_type=[str, DeferredToolRequests], toolsets=[toolset(desk)]
    )
    if stage.action in {"start", "again"}:
        result = agent.run_sync("Pay them.")
        waiting = prepare(desk, result.output, RUN)
        said = {"messages": result.all_messages_json().decode(), "waiting": waiting}
        stage.saved.write_text(json.dumps(said))
    saved = json.loads(stage.saved.read_text())
    results = settle(desk, saved["waiting"])
    if results is None:
        return stage.end(len(saved["waiting"]), "")
    history = ModelMessagesTypeAdapter.validate_json(saved["messages"])
    ended = agent.run_sync(message_history=history, deferred_tool_results=results)
    return stage.end(0, str(ended.output))


def said_in(content: Any) -> Any:
    return json.loads(content) if isinstance(content, str) else content


main()
