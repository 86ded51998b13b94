"""The HTTP server that each library among the peers is put behind: two routes, no more.

Runs in the peer's own environment. Everything comes by the environment, because uvicorn's workers
inherit nothing else: PEER_PORT, PEER_WORKERS, PEER_DATABASE (a URL of libpq), and PEER_EFFECTS,
the file that plays the outside world: one line for each effect, with its time.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

DATABASE = os.environ["PEER_DATABASE"]
_effects = os.open(os.environ["PEER_EFFECTS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)


def perform(name: str) -> dict[str, str]:
    """The effect: one line in the file of the outside world; its receipt."""
    os.write(_effects, f"{name} {time.time()}\n".encode())
    return {"receipt": f"r-{name}"}


def application(
    propose: Callable[[dict[str, Any]], Awaitable[None]],
    approve: Callable[[str], Awaitable[None]],
    lifespan: Callable[[Any], AbstractAsyncContextManager[None]],
) -> Starlette:
    async def on_propose(request: Request) -> Response:
        proposal = json.loads(await request.body())
        await propose(proposal)
        return JSONResponse({"id": proposal["name"]}, 201)

    async def on_approve(request: Request) -> Response:
        await approve(request.path_params["name"])
        return JSONResponse({}, 200)

    routes = [
        Route("/propose", on_propose, methods=["POST"]),
        Route("/approve/{name}", on_approve, methods=["POST"]),
    ]
    return Starlette(routes=routes, lifespan=lifespan)


def serve(name: str) -> None:
    """Serve ``<name>:make``, an application factory, with uvicorn's fastest parts."""
    uvicorn.run(
        f"{name}:make",
        factory=True,
        port=int(os.environ["PEER_PORT"]),
        workers=int(os.environ.get("PEER_WORKERS", "2")),
        log_level="error",
        access_log=False,
        loop="uvloop",
        http="httptools",
        timeout_worker_healthcheck=60,  # seconds: some import for long on a busy machine
    )
