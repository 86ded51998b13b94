"""Faults for tests and benches: processes that freeze, networks that swallow what is sent.

A frozen process (SIGSTOP) keeps its sockets open and answers nothing, like a host that hangs. A
``Network`` stands between a client and its server and can swallow, delay or cut what passes.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit, urlunsplit

CHUNK = 1 << 16  # bytes
Address = str | tuple[str, int]  # the path of a Unix socket, or host and port


# --- processes -----------------------------------------------------------------------------


def freeze(pid: int) -> None:
    """Stop this process alone; its children run on."""
    os.kill(pid, signal.SIGSTOP)


def thaw(pid: int) -> None:
    """Let it go on. A process that has ended meanwhile is passed over."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)


def is_frozen(pid: int) -> bool:
    """False also for one that has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].startswith("T")
    except OSError:
        return False


@contextmanager
def frozen(*pids: int) -> Iterator[None]:
    """These processes stand still within the block."""
    with ExitStack() as stack:
        for pid in pids:
            freeze(pid)
            stack.callback(thaw, pid)
        yield


def descendants(pid: int) -> list[int]:
    """Children of the process and theirs, by ``/proc``."""
    found: list[int] = []
    for thread in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            found += map(int, thread.read_text().split())
    return [each for child in found for each in (child, *descendants(child))]


def family(pid: int) -> list[int]:
    """The process and all its descendants, as ``frozen`` takes them."""
    return [pid, *descendants(pid)]


def command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


# --- networks ------------------------------------------------------------------------------


class Network:
    """A TCP address on loopback whose connections lead to a server, as long as we let them.

    Runs in a thread of its own. ``swallow`` passes nothing on and closes nothing, also for new
    connections: whoever waits for an answer hangs. ``restore`` passes on what was held back, as a
    network does after a partition. ``delay_s`` holds back every chunk. ``cut`` resets what is
    open.
    """

    def __init__(self, server: Address) -> None:
        self._server = server
        self.delay_s = 0.0
        self.connections = 0  # accepted since the start
        self._loop = asyncio.new_event_loop()
        self._open = asyncio.Event()
        self._open.set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, name="network", daemon=True)
        self._thread.start()
        self._listener = self._do(asyncio.start_server(self._accept, "127.0.0.1", 0))
        self.port = int(self._listener.sockets[0].getsockname()[1])

    def swallow(self) -> None:
        self._loop.call_soon_threadsafe(self._open.clear)
        self._do(asyncio.sleep(0))

    def restore(self) -> None:
        self._loop.call_soon_threadsafe(self._open.set)
        self._do(asyncio.sleep(0))

    @contextmanager
    def swallowing(self) -> Iterator[None]:
        self.swallow()
        try:
            yield
        finally:
            self.restore()

    def cut(self) -> None:
        self._do(self._cut())

    def close(self) -> None:
        self._do(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _do(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _accept(self, reader: Any, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        try:
            await self._open.wait()
            if isinstance(self._server, str):
                inner_reader, inner = await asyncio.open_unix_connection(self._server)
            else:
                inner_reader, inner = await asyncio.open_connection(*self._server)
        except OSError:
            writer.transport.abort()
            return
        self._writers.add(inner)
        ways = [self._pass_on(reader, inner), self._pass_on(inner_reader, writer)]
        await asyncio.gather(*ways, return_exceptions=True)
        self._writers -= {writer, inner}

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while chunk := await reader.read(CHUNK):
                if self.delay_s:
                    await asyncio.sleep(self.delay_s)
                await self._open.wait()
                writer.write(chunk)
                await writer.drain()
            await self._open.wait()
        finally:
            writer.close()

    async def _cut(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    async def _close(self) -> None:
        self._listener.close()
        await self._cut()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)


@contextmanager
def network(url: str) -> Iterator[tuple[Network, str]]:
    """A network before the server of a PostgreSQL or Redis URL, and the URL that leads through it.

    The server may listen on a Unix socket, as the engines of the tests do.
    """
    server, query = _server_of(url)
    network = Network(server)
    parts = urlsplit(url)
    user = parts.netloc.rpartition("@")[0] + "@" if "@" in parts.netloc else ""
    scheme, path = parts.scheme, parts.path
    if scheme == "unix":  # a Redis URL whose path is that of its socket
        scheme, path = "redis", f"/{query.pop('db', '0')}"
    through = "&".join(f"{name}={value}" for name, value in query.items())
    address = f"{user}127.0.0.1:{network.port}"
    try:
        yield network, urlunsplit((scheme, address, path, through, ""))
    finally:
        network.close()


def _server_of(url: str) -> tuple[Address, dict[str, str]]:
    """The address of the server, and the options of the URL that do not name it."""
    parts = urlsplit(url)
    query = {name: values[0] for name, values in parse_qs(parts.query).items()}
    if parts.scheme == "unix":
        return unquote(parts.path), query
    usual = 5432 if parts.scheme.startswith("postgres") else 6379
    host, port = query.pop("host", parts.hostname or "127.0.0.1"), parts.port or usual
    if host.startswith("/"):
        return f"{host}/.s.PGSQL.{query.pop('port', port)}", query
    return (host, int(query.pop("port", port))), query
