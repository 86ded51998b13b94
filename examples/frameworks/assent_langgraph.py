"""LangGraph (and LangChain's agents): the graph pauses, Assent carries out, the graph resumes.

    desk = Assent()
    agent = create_agent(model, tools(desk), checkpointer=checkpointer)
    agent.invoke({"messages": […]}, config)     # returns when calls wait for sign-off

Later, in any process, when Assent's webhook rings or from time to time:

    if command := settle(desk, agent, config):
        agent.invoke(command, config)

The key of a proposal is the thread's id and the call's id. A graph that died between the proposal
and its checkpoint proposes the same again when it is invoked again, and gets the same transaction.
"""

from __future__ import annotations

from typing import Any

from assent_client import Assent, Intent, Refused, Tool, key_of
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.prebuilt import ToolRuntime
from langgraph.types import Command, interrupt


def tools(desk: Assent) -> list[BaseTool]:
    """The catalogue as tools; those that change the world wait for sign-off."""
    return [_tool(desk, tool) for tool in desk.tools()]


def prepare(desk: Assent, tool: str, arguments: dict[str, Any], runtime: ToolRuntime) -> Intent:
    """Propose one call of the model. Raises ``Refused, Unreachable``."""
    thread = str(runtime.config["configurable"]["thread_id"])
    key = key_of("langgraph", thread, str(runtime.tool_call_id))
    return desk.prepare(tool, arguments, key=key, run_id=thread)


def settle(desk: Assent, graph: Any, config: RunnableConfig) -> Command[Any] | None:
    """The input to invoke the graph with; ``None`` while each of its calls still waits."""
    resume = {}
    for waiting in graph.get_state(config).interrupts:
        if isinstance(waiting.value, dict) and "transaction_id" in waiting.value:
            outcome = desk.get(waiting.value["transaction_id"])
            if outcome.is_final:
                resume[waiting.id] = outcome.for_model()
    return Command(resume=resume) if resume else None


def _tool(desk: Assent, tool: Tool) -> BaseTool:
    def call(assent_runtime: ToolRuntime, **arguments: Any) -> Any:
        try:
            if tool.kind == "readonly":
                return desk.call(tool.name, arguments)
            intent = prepare(desk, tool.name, arguments, assent_runtime)
        except Refused as refusal:
            return refusal.for_model()
        # Whatever the graph is resumed with, only the ledger says how it ended. Resumed too early,
        # it pauses again.
        while not (outcome := desk.get(intent.transaction_id)).is_final:
            interrupt(intent.as_dict())
        return outcome.for_model()

    return StructuredTool.from_function(
        call,
        name=tool.name,
        description=tool.description or tool.name,
        args_schema=tool.schema,
        infer_schema=False,
    )
