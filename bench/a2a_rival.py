"""The A2A SDK's own server over its PostgreSQL store, as its documentation builds one.

    python bench/a2a_rival.py PORT postgresql+asyncpg://…

Runs in an environment of its own (bench/a2a_rival.txt), away from the project's ``a2a`` folder.
Every task is parked: submitted, then waiting for input.
"""

from __future__ import annotations

import sys
from typing import Any

import uvicorn
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandlerV2
from a2a.server.routes import create_jsonrpc_routes
from a2a.server.tasks import DatabaseTaskStore, TaskUpdater
from a2a.types import a2a_pb2 as pb
from sqlalchemy.ext.asyncio import create_async_engine
from starlette.applications import Starlette


class Parking(AgentExecutor):
    async def execute(self, context: Any, event_queue: Any) -> None:
        task = context.current_task or pb.Task(
            id=context.task_id,
            context_id=context.context_id,
            status=pb.TaskStatus(state=pb.TASK_STATE_SUBMITTED),
            history=[context.message],
        )
        await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await updater.update_status(pb.TASK_STATE_INPUT_REQUIRED)

    async def cancel(self, context: Any, event_queue: Any) -> None:
        raise NotImplementedError


def application(url: str) -> Starlette:
    engine = create_async_engine(url, pool_size=10, max_overflow=20)
    card = pb.AgentCard(
        name="Rival", description="The SDK's own server.", version="1",
        capabilities=pb.AgentCapabilities(streaming=True),
        default_input_modes=["application/json"], default_output_modes=["application/json"],
    )  # fmt: skip
    handler = DefaultRequestHandlerV2(
        agent_executor=Parking(), task_store=DatabaseTaskStore(engine), agent_card=card
    )
    return Starlette(routes=create_jsonrpc_routes(handler, "/a2a/v1"))


if __name__ == "__main__":
    uvicorn.run(application(sys.argv[2]), port=int(sys.argv[1]), log_level="error")
