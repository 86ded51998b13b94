"""Talks with an MCP server by its address: over HTTP, or with a program that is kept running.

Every talk has a deadline for all of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from django.conf import settings

from ledger.foundation import http_out
from ledger.foundation.http_out import Credentials
from ledger.foundation.programs import programs_of
from ledger.tools.mcp import wire
from ledger.tools.mcp.kept_programs import KEPT, Key
from ledger.tools.mcp.streamable_http import HttpConnection
from ledger.tools.mcp.talks import FAILURES, Talk
from ledger.tools.mcp.wire import NothingSent, NotSpoken, ServerError

AFTERWARDS_S = 5.0  # for saying good-bye
STDIO = "stdio:"
NOTHING_SHOWN = Credentials()

Result = TypeVar("Result")


def talk(
    address: str,
    say: Callable[[Talk], Coroutine[Any, Any, Result]],
    *,
    owner: str,
    timeout_s: float,
    shown: Credentials = NOTHING_SHOWN,
    revision: str = "",
    note_stderr: Callable[[str], None] = lambda _: None,
) -> Result:
    """Return what ``say`` returns of a talk with the server at this address.

    ``owner`` is the tenant and the name of the server there: no two share a program.
    ``revision`` is the one that it last spoke; where it does not any more, that is found out
    before the call. ``note_stderr`` is given what a program said of its failure.

    Raises ``NothingSent`` for whatever fails before ``Talk.call``, and ``FAILURES`` afterwards.
    """
    has_called, stderr = False, bytearray()

    def connected(known: str) -> AbstractAsyncContextManager[Talk]:
        if address.startswith(STDIO):
            program = _program(address.removeprefix(STDIO), owner)
            return KEPT.talk_with(program, known, stderr)
        return _over_http(address, shown, known, timeout_s)

    async def once(known: str, deadline: float) -> Result:
        nonlocal has_called
        async with AsyncExitStack() as connections, asyncio.timeout_at(deadline):
            spoken = await connections.enter_async_context(connected(known))
            try:
                return await say(spoken)
            finally:
                has_called = spoken.has_called

    async def all_of_it() -> Result:
        deadline = asyncio.get_running_loop().time() + timeout_s
        try:
            return await once(revision, deadline)
        except (NotSpoken, ServerError):
            if has_called or not revision:
                raise
        return await once("", deadline)

    run = KEPT.run if address.startswith(STDIO) else asyncio.run
    try:
        return run(all_of_it())
    except FAILURES as failure:
        if stderr:
            note_stderr(stderr.decode(errors="replace"))
        if has_called or isinstance(failure, NothingSent):
            raise
        raise NothingSent(f"Nothing was called: {_told(failure)}") from failure


def _told(failure: BaseException) -> str:
    if isinstance(failure, TimeoutError):
        return "there was no answer in time."
    return str(failure) or type(failure).__name__


@asynccontextmanager
async def _over_http(
    address: str, shown: Credentials, revision: str, timeout_s: float
) -> AsyncIterator[Talk]:
    transport = http_out.SafeTransport(largest_answer=wire.LARGEST, tls=shown.tls)
    async with http_out.client(transport, timeout_s=timeout_s + AFTERWARDS_S) as http:
        spoken = Talk(HttpConnection(http, address, shown.headers))
        try:
            await spoken.begin(revision)
            yield spoken
        finally:
            await spoken.end()


def _program(name: str, owner: str) -> Key:
    """The program of this name as the settings have it now. Raises ``NothingSent``."""
    programs = settings.MCP_COMMANDS
    if file := settings.MCP_COMMANDS_FILE:
        try:
            programs = programs_of(Path(file))
        except (OSError, ValueError) as failure:
            raise NothingSent(f"{file} cannot be used: {failure}") from failure
    if name not in programs:
        where = file or "ASSENT_MCP_COMMANDS"
        raise NothingSent(f"{where} names no program {name!r:.80}.")
    return Key(owner, tuple(programs[name]), tuple(settings.MCP_ENVIRONMENT.items()))
