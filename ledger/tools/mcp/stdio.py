"""MCP over the standard input and output of a program, which only the settings can name."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from django.conf import settings

from ledger.tools.mcp import wire
from ledger.tools.mcp.wire import Json, NothingSent, NotProved

ENDS_WITHIN_S = 2.0  # after its input was closed
STDERR_KEPT = 2048  # bytes, the last of them


class Program:
    """A running program that speaks MCP, one message in each line."""

    def __init__(self, process: Process) -> None:
        self._process = process

    async def ask(self, message: Json, _: Mapping[str, str]) -> Json:
        """The result. Raises ``NotProved, ServerError``."""
        await self._write(message)
        while True:
            answer = await self._read()
            if wire.is_answer(answer, message["id"]):
                return wire.result_in(answer, message["id"])
            if isinstance(answer, dict) and "method" in answer and "id" in answer:
                await self._write(_refusal_of(answer["id"]))

    async def tell(self, message: Json, _: Mapping[str, str]) -> None:
        await self._write(message)

    async def bye(self, _: Mapping[str, str]) -> None:
        pass

    def kill(self) -> None:
        """End it, with all that it has started."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    async def _write(self, message: Json) -> None:
        assert self._process.stdin is not None
        text = json.dumps(message, allow_nan=False).encode() + b"\n"
        try:
            self._process.stdin.write(text)
            await self._process.stdin.drain()
        except (BrokenPipeError, ConnectionResetError):
            raise NotProved("The program has ended.") from None

    async def _read(self) -> Any:
        assert self._process.stdout is not None
        try:
            line = await self._process.stdout.readuntil(b"\n")
        except asyncio.LimitOverrunError:
            raise NotProved(f"It wrote a line of more than {wire.LARGEST} bytes.") from None
        except asyncio.IncompleteReadError:
            raise NotProved("The program ended without an answer.") from None
        try:
            return wire.parsed(line)
        except NotProved:
            return None  # programs write other lines too, against the rules


def _refusal_of(number: Any) -> Json:
    """We answer no question of a server: not a person's, not a language model's."""
    error = {"code": wire.METHOD_NOT_FOUND, "message": "This client answers no requests."}
    return {"jsonrpc": "2.0", "id": number, "error": error}


@asynccontextmanager
async def started(command: Sequence[str], stderr: bytearray) -> AsyncIterator[Program]:
    """The program, in a group of processes of its own, which is killed at the end.

    ``stderr`` gets the last of what it writes there. Raises ``NothingSent`` if it cannot be
    started.
    """
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env=settings.MCP_ENVIRONMENT,
            limit=wire.LARGEST,
            start_new_session=True,
        )
    except (OSError, ValueError) as failure:
        raise NothingSent(f"{command[0]} cannot be started: {failure}") from failure
    program = Program(process)
    reading = asyncio.create_task(_keep_last(process, stderr))
    try:
        yield program
        await _let_end(process)
    finally:
        program.kill()
        # A process that left the group may hold its output open.
        await asyncio.wait([reading, asyncio.create_task(process.wait())], timeout=ENDS_WITHIN_S)
        reading.cancel()


async def _keep_last(process: Process, kept: bytearray) -> None:
    assert process.stderr is not None
    while piece := await process.stderr.read(STDERR_KEPT):
        kept += piece
        del kept[:-STDERR_KEPT]


async def _let_end(process: Process) -> None:
    assert process.stdin is not None
    process.stdin.close()
    with suppress(TimeoutError):
        async with asyncio.timeout(ENDS_WITHIN_S):
            await process.wait()
