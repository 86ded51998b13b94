"""LangGraph: a graph that pauses in ``interrupt``, over its PostgreSQL checkpointer.

As LangGraph documents a human in the loop in production: ``AsyncPostgresSaver`` over a pool, a
thread per proposal, ``Command(resume=…)`` to go on. ``durability="sync"``: a checkpoint is stored
before the next step begins, so what was acknowledged is on the disk.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypedDict

from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool
from serving import DATABASE, application, perform, serve
from starlette.applications import Starlette

POOL = 20
graph: Any = None


class State(TypedDict, total=False):
    proposal: dict[str, Any]
    is_approved: bool
    result: dict[str, str]


async def ask(state: State) -> State:
    return {"is_approved": interrupt(state["proposal"])}


async def pay(state: State) -> State:
    return {"result": perform(state["proposal"]["name"])}


def _graph() -> StateGraph[State]:
    builder = StateGraph(State)
    builder.add_node("ask", ask)
    builder.add_node("pay", pay)
    builder.add_edge(START, "ask")
    builder.add_conditional_edges("ask", lambda state: "pay" if state["is_approved"] else END)
    builder.add_edge("pay", END)
    return builder


def _thread(name: str) -> Any:
    return {"configurable": {"thread_id": name}}


async def propose(proposal: dict[str, Any]) -> None:
    config = _thread(proposal["name"])
    await graph.ainvoke({"proposal": proposal}, config, durability="sync")


async def approve(name: str) -> None:
    await graph.ainvoke(Command(resume=True), _thread(name), durability="sync")


@asynccontextmanager
async def lifespan(_app: Any) -> AsyncIterator[None]:
    global graph
    kwargs = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
    async with AsyncConnectionPool(DATABASE, max_size=POOL, kwargs=kwargs) as pool:
        graph = _graph().compile(checkpointer=AsyncPostgresSaver(pool))
        yield


def make() -> Starlette:
    return application(propose, approve, lifespan)


if __name__ == "__main__":
    with PostgresSaver.from_conn_string(DATABASE) as saver:
        saver.setup()
    serve("langgraph_peer")
