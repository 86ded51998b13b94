"""DBOS: a durable workflow that waits for an approval (``recv``), then runs a step.

As DBOS's example of a human in the loop does it: the workflow publishes its status with
``set_event`` for the list of what waits, then waits in ``recv``. Asynchronous, because a
synchronous workflow would hold a thread for as long as it waits.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from dbos import DBOS, SetWorkflowID
from serving import DATABASE, application, perform, serve
from starlette.applications import Starlette

LONGEST_WAIT_S = 24 * 60 * 60


@DBOS.step()
async def pay(name: str) -> dict[str, str]:
    return perform(name)


@DBOS.workflow()
async def sign_off(proposal: dict[str, Any]) -> dict[str, str] | None:
    await DBOS.set_event_async("status", "waits for approval")
    if not await DBOS.recv_async("approval", timeout_seconds=LONGEST_WAIT_S):
        return None
    return await pay(proposal["name"])


async def propose(proposal: dict[str, Any]) -> None:
    with SetWorkflowID(proposal["name"]):  # the idempotency key
        await DBOS.start_workflow_async(sign_off, proposal)


async def approve(name: str) -> None:
    await DBOS.send_async(name, True, topic="approval", idempotency_key=name)


@asynccontextmanager
async def lifespan(_app: Any) -> AsyncIterator[None]:
    DBOS.launch()
    yield
    DBOS.destroy()


def make() -> Starlette:
    DBOS(
        config={
            "name": "peer",
            "system_database_url": DATABASE,
            "executor_id": uuid.uuid4().hex,
            "application_version": "1",
            "log_level": "ERROR",
            "run_migrations": False,
        }
    )
    return application(propose, approve, lifespan)


def set_up() -> None:
    """The tables, before two processes would make them at the same time."""
    os.environ["DBOS__CLOUD"] = ""
    DBOS(config={"name": "peer", "system_database_url": DATABASE, "log_level": "ERROR"})
    DBOS.launch()
    DBOS.destroy()


if __name__ == "__main__":
    set_up()
    serve("dbos_peer")
