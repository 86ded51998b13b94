"""Every request passes here first: who asks too often or sends too much is refused at once.

Nothing of the body is read for that. The database is asked only to learn whom a token belongs to:
as often as its address may ask, and every few seconds while the token is used. This is not
authentication, which happens for each request, later.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import Any

from django.conf import settings

from approvals.http.admission.pages import PEER
from approvals.http.admission.throttled_polls import HAS_STOOD_BACK
from ledger import limits
from ledger.agents import holders_of, note_use
from ledger.api.http import TOKEN_IS_KNOWN, database_away, problem, problem_of, token_in
from ledger.api.waiting.waiters import Waiter, Waiters, waiters
from ledger.errors import LimitReached
from ledger.foundation.batches import Batcher, in_thread
from ledger.foundation.bounded import Bounded
from ledger.foundation.postgres.sessions import CONNECTION_LOST
from ledger.foundation.telemetry import log_context
from ledger.limits import Holder, Limit, Of
from ledger.models import AgentToken
from ledger.principals import agent

# Where files may be in a request: messages over A2A, and work that people give.
WITH_FILES = ("/a2a/", "/tasks/")
LARGEST_SOCKET_MESSAGE = 4 * 1024  # bytes; browsers send a few as a sign of life
LEARN_AGAIN_S = 5.0
NOTE_USE_S = 3600.0


class Gate:
    """``inside``, for those whose token and address have not reached their limits."""

    def __init__(self, inside: Any) -> None:
        self._inside = inside
        self._holders = Holders()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        address = address_of(scope)
        if settings.BEHIND_PROXY:
            port = (scope.get("client") or ("", 0))[1]
            scope = {**scope, "client": (address, port), PEER: _peer_of(scope)}
        if len(_authorizations_of(scope)) > 1:
            await _refuse(scope, send, _two_authorizations())
            return
        try:
            size = _declared_size(scope)
            if size > largest_body(scope["path"]):
                await _refuse(scope, send, _too_large(scope["path"]))
                return
            holder = await self._count(scope, address, size)
        except LimitReached as refusal:
            await _refuse(scope, send, problem_of(refusal))
            return
        except CONNECTION_LOST as failure:
            away = database_away(failure, scope["path"], is_read=True)
            await _refuse(scope, send, problem_of(away))
            return
        if holder is not None:
            log_context.note(tenant=holder.tenant, principal=agent(holder.tenant, holder.slug, ""))
        if scope["type"] == "websocket":
            receive = _small_messages(receive)
        elif holder is not None:
            receive = _counted(receive, holder, size)
        await self._inside({**scope, TOKEN_IS_KNOWN: holder is not None}, receive, send)

    async def _count(self, scope: Any, address: str, size: int) -> Holder | None:
        """The agent whose token the request has. Raises ``LimitReached``."""
        token = _token_of(scope)
        token_hash = AgentToken.hash_of(token) if token else ""
        holder = self._holders.known(token_hash) if token else None
        if holder is None:
            limits.check_address(address)
            holder = await self._holders.learn(token_hash) if token else None
        if holder is not None:
            _check_holder(scope, token_hash, holder, size)
        return holder


def _check_holder(scope: Any, token_hash: str, holder: Holder, size: int) -> None:
    try:
        limits.check_holder(token_hash, holder, size)
    except LimitReached:
        if not scope.get(HAS_STOOD_BACK):
            raise


class Holders:
    """The holders of the tokens that came lately.

    Every ``LEARN_AGAIN_S`` the limits of a token that is used are read again, and whether it still
    authenticates: one that was revoked is forgotten.
    """

    def __init__(self) -> None:
        self._known: Bounded[str, tuple[float, Holder]] = Bounded(20_000)
        self._noted: Bounded[str, float] = Bounded(20_000)
        self._reading: set[asyncio.Task[Any]] = set()
        self._holders = Batcher(_holders_of)

    def known(self, token_hash: str) -> Holder | None:
        entry = self._known.get(token_hash)
        if entry is None:
            return None
        learnt_at, holder = entry
        now = time.monotonic()
        if now - learnt_at > LEARN_AGAIN_S:
            self._known.put(token_hash, (now, holder))
            self._read_again(token_hash)
        return holder

    async def learn(self, token_hash: str) -> Holder | None:
        holder = await self._holders.ask(token_hash)
        if holder is None:
            self._known.remove(token_hash)
        else:
            self._known.put(token_hash, (time.monotonic(), holder))
            self._note_use(token_hash)
        return holder

    def _note_use(self, token_hash: str) -> None:
        """Beside the requests, and once an hour in this process."""
        noted_at, now = self._noted.get(token_hash), time.monotonic()
        if noted_at is None or now - noted_at > NOTE_USE_S:
            self._noted.put(token_hash, now)
            self._beside(self._write_use(token_hash))

    async def _write_use(self, token_hash: str) -> None:
        try:
            await in_thread(note_use, token_hash)
        except BaseException:
            self._noted.remove(token_hash)  # not for an hour: the next use tries again
            raise

    def _read_again(self, token_hash: str) -> None:
        """Beside the requests: nobody waits for a limit to be read."""
        self._beside(self.learn(token_hash))

    def _beside(self, work: Coroutine[Any, Any, Any]) -> None:
        reading = asyncio.create_task(work)
        self._reading.add(reading)
        reading.add_done_callback(self._done)

    def _done(self, reading: asyncio.Task[Any]) -> None:
        self._reading.discard(reading)
        if not reading.cancelled():
            reading.exception()  # the database is away; the limits stay as they were


def _holders_of(hashes: list[str]) -> list[Holder | None]:
    """The agents of tokens that authenticate now; their limits are read too."""
    holders = [
        Holder(caller.principal.tenant, caller.principal.slug) if caller is not None else None
        for caller in holders_of(hashes)
    ]
    for holder in {holder for holder in holders if holder is not None}:
        limits.refresh(holder.tenant, holder.slug)
    return holders


def address_of(scope: Any) -> str:
    """The address of the client: as our own proxy states it, if there is one, else the peer's.

    A client may write anything into X-Forwarded-For; our proxy appends the last entry.
    """
    if settings.BEHIND_PROXY:
        values = [value for name, value in scope["headers"] if name == b"x-forwarded-for"]
        if values:
            return str(values[-1].decode("latin-1").rpartition(",")[2].strip())
    return _peer_of(scope)


def _peer_of(scope: Any) -> str:
    client = scope.get("client")
    return str(client[0]) if client else ""


def largest_body(path: str) -> int:
    """Bytes."""
    if path.startswith(WITH_FILES):
        return int(settings.A2A_BODY_MAX)
    return 2 * int(settings.DATA_UPLOAD_MAX_MEMORY_SIZE)


def _declared_size(scope: Any) -> int:
    value = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
    return int(value) if value.isdigit() and len(value) < 19 else 0


def _authorizations_of(scope: Any) -> list[bytes]:
    return [value for name, value in scope["headers"] if name == b"authorization"]


def _token_of(scope: Any) -> str:
    return token_in((_authorizations_of(scope) or [b""])[0])


def _two_authorizations() -> Any:
    return problem(
        400,
        "malformed",
        "The request cannot be read",
        "The request has more than one Authorization header.",
        "Nothing was done. Send one token.",
    )


def _too_large(path: str) -> Any:
    return problem(
        413,
        "too_large",
        "Too large",
        f"A body has at most {largest_body(path) // 1024} KiB here. None of it was read.",
        "Nothing was done. Send references instead.",
    )


async def _refuse(scope: Any, send: Any, response: Any) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1013})
        return
    response["Content-Length"] = str(len(response.content))
    response["Cache-Control"] = "no-store"
    if response.status_code == 413:
        response["Connection"] = "close"  # the rest of the body is not read
    headers = [(name.lower().encode(), value.encode()) for name, value in response.items()]
    start = {"type": "http.response.start", "status": response.status_code, "headers": headers}
    await send(start)
    await send({"type": "http.response.body", "body": response.content})


def _counted(receive: Any, holder: Holder, declared: int) -> Any:
    """Counts what comes in beyond the declared size, as chunked bodies do, which declare none."""
    uncounted = -declared

    async def counted() -> Any:
        nonlocal uncounted
        message = await receive()
        uncounted += len(message.get("body", b""))
        if uncounted > 0:
            limits.count_bytes(holder, uncounted)
            uncounted = 0
        return message

    return counted


def _small_messages(receive: Any) -> Any:
    """Ends a socket that sends more than a sign of life."""

    async def small() -> Any:
        message = await receive()
        content = message.get("text") or message.get("bytes") or ""
        if len(content) > LARGEST_SOCKET_MESSAGE:
            return {"type": "websocket.disconnect", "code": 1009}
        return message

    return small


def limit_waits(waiter: Waiter, now: Waiters) -> None:
    """A limit of ``waiters``: how many may be open at once. Raises ``LimitReached``."""
    slug = waiter.principal.partition("/")[2]
    counts = (
        (Of.AGENT, waiter.principal, now.of_principal(waiter.principal)),
        (Of.TENANT, waiter.tenant, now.of_tenant(waiter.tenant)),
        (Of.ADDRESS, waiter.address, now.of_address(waiter.address)),
    )
    for of, holder, number in counts:
        refusal = limits.too_many(Limit.WAITS, of, waiter.tenant, slug, number) if holder else None
        if refusal is not None:
            raise refusal


waiters.limits.append(limit_waits)
