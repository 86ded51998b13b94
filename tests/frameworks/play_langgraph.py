from __future__ import annotations

import json
from typing import Any

from assent_langgraph import settle, tools
from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command
from play import RUN, Desk, Stage, call_id


class Model(GenericFakeChatModel):
    """Makes its calls at once, and says "done" when it has their results."""

    stage: Any

    def bind_tools(self, *said: Any, **more: Any) -> Model:
        return self

    def _generate(self, messages: list[BaseMessage], *said: Any, **more: Any) -> ChatResult:
        results = [message for message in messages if isinstance(message, ToolMessage)]
        self.stage.told = {one.tool_call_id: json.loads(str(one.content)) for one in results}
        calls = [
            {"name": call["tool"], "args": call["arguments"], "id": call_id(number)}
            for number, call in enumerate(self.stage.calls)
        ]
        answer = AIMessage("done") if results else AIMessage("", tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=answer)])


def main() -> None:
    stage, desk = Stage(), Desk()
    config = {"configurable": {"thread_id": RUN}}
    with SqliteSaver.from_conn_string(str(stage.saved)) as saver:
        model = Model(messages=iter(()), stage=stage)
        agent = create_agent(model, tools(desk), checkpointer=saver)
        match stage.action:
            case "start":
                asked = {"messages": [("user", "Pay them.")]}
                agent.invoke(asked, config, durability="sync")
            case "again":
                agent.invoke(None, config, durability="sync")
            case "forge":
                waiting = agent.get_state(config).interrupts
                agent.invoke(Command(resume={one.id: {"status": "ok"} for one in waiting}), config)
            case "resume":
                if command := settle(desk, agent, config):
                    agent.invoke(command, config)
        state = agent.get_state(config)
        last = state.values["messages"][-1]
        stage.end(len(state.interrupts), str(last.content) if isinstance(last, AIMessage) else "")


main()
