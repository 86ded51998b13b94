"""CrewAI: tools that propose, wait for people, and return the outcome to the crew.

    agent = Agent(role=…, tools=tools(desk, "run-7"))

The key of a proposal is the run's id and what is called. A crew that died is started again with the
same id: its same call is the same transaction.
"""

from __future__ import annotations

import json
from typing import Any

from assent_client import Assent, Refused, Tool, key_of
from crewai.tools import BaseTool

ANSWER = {
    "type": "object",
    "properties": {"transaction_id": {"type": "string"}, "text": {"type": "string"}},
    "required": ["transaction_id", "text"],
}


def tools(desk: Assent, run_id: str) -> list[BaseTool]:
    """The catalogue as tools, and one that answers what people ask about a proposal."""
    proposals = [_tool(desk, run_id, tool) for tool in desk.tools()]
    return [*proposals, Answer(desk=desk, args_schema=ANSWER)]


def _tool(desk: Assent, run_id: str, tool: Tool) -> BaseTool:
    kind = ReadOnly if tool.kind == "readonly" else Proposal
    said = {"name": tool.name, "description": tool.description, "args_schema": tool.schema}
    return kind(desk=desk, run_id=run_id, **said)


class _Asked(BaseTool):
    """The ledger is asked each time, and no older answer is told."""

    desk: Any
    run_id: str = ""
    cache_function: Any = lambda *said: False

    def _run(self, **arguments: Any) -> str:
        given = {name: value for name, value in arguments.items() if value is not None}
        try:
            return json.dumps(self.ask(given))
        except Refused as refusal:
            return json.dumps(refusal.for_model())

    def ask(self, arguments: dict[str, Any]) -> Any:
        raise NotImplementedError


class ReadOnly(_Asked):
    def ask(self, arguments: dict[str, Any]) -> Any:
        return self.desk.call(self.name, arguments)


class Proposal(_Asked):
    def ask(self, arguments: dict[str, Any]) -> Any:
        called = json.dumps([self.name, arguments], sort_keys=True)
        key = key_of("crewai", self.run_id, called)
        intent = self.desk.prepare(self.name, arguments, key=key, run_id=self.run_id)
        return self.desk.wait(intent.transaction_id).for_model()


class Answer(_Asked):
    name: str = "assent_answer"
    description: str = (
        "Answers the question that people have about a proposal which is pending; then waits."
    )

    def ask(self, arguments: dict[str, Any]) -> Any:
        try:
            self.desk.answer(arguments["transaction_id"], arguments["text"])
        except Refused as refusal:
            if refusal.status != 409:  # it was decided meanwhile, or this was said before
                raise
        return self.desk.wait(arguments["transaction_id"]).for_model()
