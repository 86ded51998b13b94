"""MCP over the standard input and output of a program, which only the settings can name."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from ledger.tools.mcp import wire
from ledger.tools.mcp.wire import Json, NothingSent, NotProved

ENDS_WITHIN_S = 2.0  # after its input was closed
STDERR_KEPT = 2048  # bytes, the last of them


class Program:
    """A running program that speaks MCP, one message in each line."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.stderr = bytearray()  # the last of what it wrote there
        self._keeping_stderr = asyncio.create_task(self._keep_stderr())

    async def ask(self, message: Json, _: Mapping[str, str]) -> Json:
        """The result. Raises ``NotProved, ServerError``."""
        await self._write(message)
        while True:
            answer = await self._read()
            if wire.is_answer(answer, message["id"]):
                return wire.result_in(answer, message["id"])
            if isinstance(answer, dict) and "method" in answer and "id" in answer:
                await self._write(_reply_to(answer))

    async def tell(self, message: Json, _: Mapping[str, str]) -> None:
        await self._write(message)

    async def bye(self, _: Mapping[str, str]) -> None:
        pass

    async def end(self) -> None:
        """Close its input, by which programs are told to end; kill one that does not."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(ENDS_WITHIN_S):
                await self._process.wait()
        await self.kill()

    async def kill(self) -> None:
        """End it, with all that it has started."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        # A process that left the group may hold its output open.
        ended = asyncio.create_task(self._process.wait())
        await asyncio.wait([self._keeping_stderr, ended], timeout=ENDS_WITHIN_S)
        self._keeping_stderr.cancel()

    async def _keep_stderr(self) -> None:
        assert self._process.stderr is not None
        while piece := await self._process.stderr.read(STDERR_KEPT):
            self.stderr += piece
            del self.stderr[:-STDERR_KEPT]

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


def _reply_to(question: Json) -> Json:
    """A sign of life; but no question is answered that is a person's or a language model's."""
    if question["method"] == "ping":
        return {"jsonrpc": "2.0", "id": question["id"], "result": {}}
    error = {"code": wire.METHOD_NOT_FOUND, "message": "This client answers no such request."}
    return {"jsonrpc": "2.0", "id": question["id"], "error": error}


async def start(command: Sequence[str], environment: Mapping[str, str]) -> Program:
    """The program, in a group of processes of its own. Raises ``NothingSent`` if that fails."""
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env=environment,
            limit=wire.LARGEST,
            start_new_session=True,
        )
    except (OSError, ValueError) as failure:
        raise NothingSent(f"{command[0]} cannot be started: {failure}") from failure
    return Program(process)
