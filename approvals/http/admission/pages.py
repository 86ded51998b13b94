"""Pages and REST inside the asynchronous process: the WSGI application, in a few threads.

Django's own ASGI handler takes a new thread, and with it a new database connection, for each
request. Of these threads there are as many as connections are wanted.
"""

from __future__ import annotations

import asyncio
import io
import json
import logging
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator
from http import HTTPStatus
from typing import Any

from ledger.api.http import UNCERTAIN
from ledger.foundation.lanes import Busy, Lane

logger = logging.getLogger(__name__)

PEER = "assent.peer"  # who is connected; ``client`` may be whom a proxy speaks of
AT_ONCE = 256 * 1024  # bytes of an answer that are sent in one go; larger ones stream


# Status, headers and body of a response, or ``None``.
FastPath = Callable[[Any, bytes], Awaitable[tuple[int, list[tuple[bytes, bytes]], bytes] | None]]


class BodyRefused(Exception):
    """Too large, too slow, or its sender has left."""

    def __init__(self, status: HTTPStatus | None) -> None:
        self.status = status


class Pages:
    """A WSGI application as an ASGI one, in a lane, with a bound on bodies and their time."""

    def __init__(
        self,
        inside: Any,
        lane: Lane,
        *,
        largest_body: int,
        body_within_s: float,
        fast_path: FastPath | None = None,
        whose: Callable[[Any], str] = lambda scope: "",
    ) -> None:
        """``fast_path`` is asked first, and answers without a thread where it can."""
        self._inside, self._fast_path = inside, fast_path
        self._lane, self._whose = lane, whose
        self._largest, self._within_s = largest_body, body_within_s

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            async with asyncio.timeout(self._within_s):
                body = await self._body(receive)
        except TimeoutError:
            await refuse(send, HTTPStatus.REQUEST_TIMEOUT)
        except BodyRefused as refusal:
            if refusal.status is not None:
                await refuse(send, refusal.status)
        else:
            await self._answer(scope, body, send)

    async def _answer(self, scope: Any, body: bytes, send: Any) -> None:
        is_untouched = True
        try:
            fast = await self._fast_path(scope, body) if self._fast_path is not None else None
        except Exception as failure:
            # The view finds out what was done, by the key of the request, or says what is wrong.
            logger.warning(
                "%s %s goes to its view after %r", scope["method"], scope["path"], failure
            )
            fast, is_untouched = None, False
        if fast is not None:
            status, headers, content = fast
            await send({"type": "http.response.start", "status": status, "headers": headers})
            await send({"type": "http.response.body", "body": content})
            return
        answer = _Answer(asyncio.get_running_loop(), send, self._within_s)
        try:
            await self._lane.run(self._whose(scope), self._run, scope, body, answer)
            await answer.finish()
        except Busy:
            await refuse(send, HTTPStatus.SERVICE_UNAVAILABLE, is_untouched=is_untouched)
        except ReaderTooSlow:
            logger.info("%s %s: nobody read the answer", scope["method"], scope["path"])

    async def _body(self, receive: Any) -> bytes:
        chunks, size = [], 0
        while True:
            message = await receive()
            if message["type"] != "http.request":
                raise BodyRefused(None)
            chunks.append(message.get("body", b""))
            size += len(chunks[-1])
            if size > self._largest:
                raise BodyRefused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            if not message.get("more_body"):
                return b"".join(chunks)

    def _run(self, scope: Any, body: bytes, answer: _Answer) -> None:
        chunks = self._inside(environ_of(scope, body), answer.start)
        try:
            answer.take(chunks)
        finally:
            if hasattr(chunks, "close"):
                chunks.close()


def environ_of(scope: Any, body: bytes) -> dict[str, Any]:
    """PEP 3333. CONTENT_LENGTH is the length received, not the one in the header."""
    server, client = scope.get("server") or ("localhost", 80), scope.get("client") or ("", 0)
    environ = {
        "REQUEST_METHOD": scope["method"],
        "SCRIPT_NAME": "",
        "PATH_INFO": scope["path"].encode().decode("latin-1"),
        "QUERY_STRING": scope.get("query_string", b"").decode("latin-1"),
        "SERVER_PROTOCOL": f"HTTP/{scope.get('http_version', '1.1')}",
        "SERVER_NAME": server[0],
        "SERVER_PORT": str(server[1] or 0),
        "REMOTE_ADDR": client[0],
        PEER: scope.get(PEER, client[0]),
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scope.get("scheme", "http"),
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
    }
    for raw_name, value in scope["headers"]:
        name = raw_name.decode("latin-1").upper()
        # X_Forwarded_Proto would become the same variable as X-Forwarded-Proto.
        if "_" not in name:
            _add_header(environ, name.replace("-", "_"), value.decode("latin-1"))
    environ["CONTENT_LENGTH"] = str(len(body))
    return environ


def _add_header(environ: dict[str, Any], name: str, value: str) -> None:
    key = name if name == "CONTENT_TYPE" else f"HTTP_{name}"
    between = "; " if name == "COOKIE" else ","
    environ[key] = f"{environ[key]}{between}{value}" if key in environ else value


class ReaderTooSlow(Exception):
    """The client took none of the answer for as long as a body may take."""


class _Answer:
    """The application's response, gathered in its thread and sent from the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, send: Any, within_s: float) -> None:
        self._loop, self._send, self._within_s = loop, send, within_s
        self._head: dict[str, Any] = {}
        self._rest = b""
        self._has_started = False

    def start(self, status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> None:
        self._head = {
            "type": "http.response.start",
            "status": int(status[:3]),
            "headers": [
                (name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers
            ],
        }

    def take(self, chunks: Iterable[bytes]) -> None:
        """In the application's thread: what is larger than ``AT_ONCE`` is sent as it comes.

        Raises ``ReaderTooSlow``: a client that does not read must not hold the thread.
        """
        for piece in _in_pieces(chunks):
            if self._rest:
                sending = asyncio.run_coroutine_threadsafe(self._say(more=True), self._loop)
                try:
                    sending.result(self._within_s)
                except TimeoutError:
                    sending.cancel()
                    raise ReaderTooSlow from None
            self._rest = piece

    async def finish(self) -> None:
        """Send the rest; nothing is held meanwhile. Raises ``ReaderTooSlow``."""
        try:
            async with asyncio.timeout(self._within_s):
                await self._say(more=False)
        except TimeoutError:
            raise ReaderTooSlow from None

    async def _say(self, *, more: bool) -> None:
        if not self._has_started:
            self._has_started = True
            await self._send(self._head)
        await self._send({"type": "http.response.body", "body": self._rest, "more_body": more})


def _in_pieces(chunks: Iterable[bytes]) -> Iterator[bytes]:
    gathered, size = [], 0
    for chunk in chunks:
        gathered.append(chunk)
        size += len(chunk)
        if size >= AT_ONCE:
            yield b"".join(gathered)
            gathered, size = [], 0
    if gathered:
        yield b"".join(gathered)


REFUSALS = {
    HTTPStatus.REQUEST_TIMEOUT: ("body_too_slow", "Send all of the body without a pause."),
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: ("too_large", "Send less than 256 KiB."),
    HTTPStatus.SERVICE_UNAVAILABLE: (
        "busy",
        "Repeat the same request, with the same Idempotency-Key, after Retry-After.",
    ),
}


async def refuse(send: Any, status: HTTPStatus, *, is_untouched: bool = True) -> None:
    """As problem+json. ``is_untouched``: certainly nothing of the request was done."""
    code, hint = REFUSALS[status]
    outcome = "Nothing was done." if is_untouched else UNCERTAIN
    body = json.dumps(
        {
            "type": f"urn:assent:problem:{code}",
            "title": status.phrase,
            "status": int(status),
            "detail": f"{status.description or status.phrase}. {outcome}",
            "code": code,
            "hint": hint,
        }
    ).encode()
    head = [
        (b"content-type", b"application/problem+json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    if status is HTTPStatus.SERVICE_UNAVAILABLE:
        head.append((b"retry-after", b"2"))
    await send({"type": "http.response.start", "status": int(status), "headers": head})
    await send({"type": "http.response.body", "body": body})
