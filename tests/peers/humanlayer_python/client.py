"""The unmodified HumanLayer client for Python, for tests: says what it sees, one JSON line each.

    python client.py <sync|async> <approve|bound|ask|respond>

Between two polls it says ``waits``, and goes on with the next line of its input.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from humanlayer import HumanLayer, ResponseOption
from humanlayer.core.async_approval import AsyncHumanLayer
from humanlayer.core.models import FunctionCallSpec, FunctionCallStatus

KIND, WHAT = sys.argv[1:]
OPTIONS = [
    ResponseOption(name="later", title="Not now", prompt_fill="Not now, ask tomorrow"),
    ResponseOption(name="never", title="Never"),
]


def say(**seen: Any) -> None:
    sys.stdout.write(json.dumps(seen) + "\n")
    sys.stdout.flush()


def wait(_: int) -> None:
    say(seen="waits")
    sys.stdin.readline()


async def wait_async(seconds: int) -> None:
    wait(seconds)


def send_email(to: str) -> str:
    """Send an e-mail."""
    return f"sent to {to}"


async def send_email_async(to: str) -> str:
    return f"sent to {to}"


def fly(rocket: str) -> str:
    """Fly a rocket."""
    return f"flew {rocket} itself"


async def fly_later(rocket: str) -> str:
    return fly(rocket)


fly_later.__name__ = fly.__name__


def in_sync() -> Any:
    layer = HumanLayer(sleep=wait)
    if WHAT == "approve":
        return layer.require_approval(reject_options=OPTIONS).wrap(send_email)(to="ann")
    if WHAT == "bound":
        return layer.require_approval().wrap(fly)(rocket="ariane")
    if WHAT == "ask":
        return layer.human_as_tool(response_options=OPTIONS)("Ship it?")
    call = layer.create_function_call(FunctionCallSpec(fn="send_email", kwargs={"to": "ann"}))
    try:
        layer.respond_to_function_call(call.call_id, FunctionCallStatus(approved=True))
    except Exception as refusal:
        return str(refusal)
    return "it decided"


async def in_async() -> Any:
    layer = AsyncHumanLayer(sleep=wait_async)
    if WHAT == "approve":
        wrapped = layer.require_approval(reject_options=OPTIONS).wrap(send_email_async)
        return await wrapped(to="ann")
    if WHAT == "bound":
        return await layer.require_approval().wrap(fly_later)(rocket="ariane")
    return await layer.human_as_tool(response_options=OPTIONS)("Ship it?")


say(seen="result", text=in_sync() if KIND == "sync" else asyncio.run(in_async()))
