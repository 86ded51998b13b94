"""The A2A SDK's own server over its PostgreSQL store, as its documentation builds one.

Runs in an environment of its own (bench/a2a_rival.txt), from a folder away from the project's
``a2a``. Skills: ``park`` is submitted, then waits for input; ``enter`` is submitted and no more,
which is all that Assent writes until a worker comes; ``answer`` completes at once.

Everything comes by the environment, because uvicorn's workers inherit nothing else: RIVAL_PORT,
RIVAL_DATABASE, RIVAL_TOKEN, RIVAL_WORKERS, RIVAL_STORE (``plain`` or ``versioned``), and
RIVAL_RELEASE, the seconds after which a parked task leaves the memory (the SDK's default: never),
and RIVAL_POOL and RIVAL_OVERFLOW, the connections to PostgreSQL of each worker.
"""

from __future__ import annotations

import asyncio
import hmac
import os
from typing import Any

import uvicorn
from a2a.server.agent_execution import AgentExecutor
from a2a.server.cluster import DatabaseTaskEventStream, VersionedDatabaseTaskStore
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import DatabaseTaskStore, TaskUpdater
from a2a.types import a2a_pb2 as pb
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from starlette.applications import Starlette
from starlette.authentication import (
    AuthCredentials,
    AuthenticationBackend,
    AuthenticationError,
    SimpleUser,
)
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.responses import JSONResponse

PATH = "/a2a/v1"


class Desk(AgentExecutor):
    async def execute(self, context: Any, event_queue: Any) -> None:
        skill = context.message.parts[0].data.struct_value.fields["skill"].string_value
        is_answered = skill == "answer"
        state = pb.TASK_STATE_COMPLETED if is_answered else pb.TASK_STATE_SUBMITTED
        task = pb.Task(
            id=context.task_id,
            context_id=context.context_id,
            status=pb.TaskStatus(state=state),
            history=[context.message],
            artifacts=[pb.Artifact(artifact_id="1", parts=[pb.Part(text="Done.")])]
            if is_answered
            else [],
        )
        await event_queue.enqueue_event(task)
        if skill == "park":
            updater = TaskUpdater(event_queue, task.id, task.context_id)
            await updater.requires_input()

    async def cancel(self, context: Any, event_queue: Any) -> None:
        raise NotImplementedError


class Bearer(AuthenticationBackend):
    """One token, compared in memory; the card is for everyone."""

    async def authenticate(self, conn: Any) -> tuple[AuthCredentials, SimpleUser] | None:
        if conn.url.path != PATH:
            return None
        authorization = conn.headers.get("authorization", "")
        if not hmac.compare_digest(authorization, f"Bearer {os.environ['RIVAL_TOKEN']}"):
            raise AuthenticationError("unknown token")
        return AuthCredentials(["authenticated"]), SimpleUser("bench")


def store_on(engine: AsyncEngine, creates: bool) -> Any:
    versioned = os.environ.get("RIVAL_STORE") == "versioned"
    store = VersionedDatabaseTaskStore if versioned else DatabaseTaskStore
    return store(engine, create_table=creates)


def application() -> Starlette:
    engine = create_async_engine(
        os.environ["RIVAL_DATABASE"],
        pool_size=int(os.environ.get("RIVAL_POOL", "10")),
        max_overflow=int(os.environ.get("RIVAL_OVERFLOW", "20")),
    )
    store = store_on(engine, creates=False)
    # Replicas that share a versioned store hear of each other's events through the database.
    stream = (
        None
        if isinstance(store, DatabaseTaskStore)
        else DatabaseTaskEventStream(engine, create_table=False)
    )
    release = os.environ.get("RIVAL_RELEASE")
    handler = DefaultRequestHandler(
        agent_executor=Desk(),
        task_store=store,
        agent_card=card(),
        event_stream=stream,
        interrupted_task_timeout=float(release) if release else None,
    )
    return Starlette(
        routes=[*create_jsonrpc_routes(handler, PATH), *create_agent_card_routes(card())],
        middleware=[Middleware(AuthenticationMiddleware, backend=Bearer(), on_error=_refuse)],
    )


def _refuse(_request: Any, error: Exception) -> JSONResponse:
    return JSONResponse({"error": str(error)}, 401, {"WWW-Authenticate": "Bearer"})


def card() -> pb.AgentCard:
    url = f"http://127.0.0.1:{os.environ['RIVAL_PORT']}{PATH}"
    skills = [
        pb.AgentSkill(id=name, name=name, description=f"{name} a task", tags=["bench"])
        for name in ("park", "enter", "answer")
    ]
    door = pb.AgentInterface(url=url, protocol_binding="JSONRPC", protocol_version="1.0")
    return pb.AgentCard(
        name="Rival",
        description="The SDK's own server.",
        version="1",
        skills=skills,
        supported_interfaces=[door],
        capabilities=pb.AgentCapabilities(streaming=True),
        default_input_modes=["application/json"],
        default_output_modes=["application/json"],
    )


async def create_tables() -> None:
    """Before any worker is there: two of them at it would get in each other's way."""
    engine = create_async_engine(os.environ["RIVAL_DATABASE"])
    await store_on(engine, creates=True).initialize()
    await engine.dispose()


if __name__ == "__main__":
    asyncio.run(create_tables())
    uvicorn.run(
        "server:application",
        factory=True,
        port=int(os.environ["RIVAL_PORT"]),
        workers=int(os.environ.get("RIVAL_WORKERS", "1")),
        log_level="error",
        access_log=False,
        loop="uvloop",
        http="httptools",
    )
