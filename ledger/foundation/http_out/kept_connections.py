"""Connections to receivers that are kept for the next delivery, and checked like new ones.

Each receiver has connections of its own, so that no two share one, whatever name or address they
have in common. They lead to addresses that were checked: these are looked up and checked again
after ``CHECKED_FOR_S``, and if they have changed, the connections are closed. All methods belong
to one event loop.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass, field

import httpx

from ledger.foundation.http_out import safe_http
from ledger.foundation.http_out.safe_http import Address, NotAccepted, NotInTime, Post

CHECKED_FOR_S = 10.0
IDLE_S = 15.0
MOST_RECEIVERS = 500  # whose connections are kept
MOST_CONNECTIONS = 16  # to one receiver
# How much of an answer is read, and for how long, for the connection to be kept.
IGNORED_BYTES = 16 * 1024
IGNORED_S = 1.0
# The receiver closed the connection that we had kept, as we were using it again.
STALE = (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError)

Key = tuple[str, str, str, int]


@dataclass(slots=True)
class _Receiver:
    """The kept connections to one receiver; ``addresses`` are where they may lead."""

    transport: httpx.AsyncHTTPTransport = field(default_factory=lambda: _transport())
    addresses: list[Address] = field(default_factory=list)
    checked_until: float = 0.0
    used_at: float = 0.0
    in_flight: int = 0
    has_answered: bool = False


def _transport() -> httpx.AsyncHTTPTransport:
    limits = httpx.Limits(
        max_connections=MOST_CONNECTIONS,
        max_keepalive_connections=MOST_CONNECTIONS,
        keepalive_expiry=IDLE_S,
    )
    return httpx.AsyncHTTPTransport(verify=safe_http.trust(), trust_env=False, limits=limits)


class Connections:
    """The kept connections of one process."""

    def __init__(self) -> None:
        self._receivers: OrderedDict[Key, _Receiver] = OrderedDict()

    async def deliver(self, receiver: str, post: Post) -> None:
        """POST to a receiver, within ``DELIVERY_TIMEOUT_S`` in all.

        ``receiver`` is whose connections are used. Raises ``AddressRefused``, ``NotAccepted`` and
        ``httpx.HTTPError``.
        """
        status = 0
        limit_s = safe_http.DELIVERY_TIMEOUT_S
        try:
            async with asyncio.timeout(limit_s):
                response = await self._send(receiver, post)
                status = response.status_code
                await _finish(response)
        except TimeoutError:
            if not status:
                raise NotInTime(f"The receiver did not answer within {limit_s:g} s.") from None
        if not 200 <= status < 300:
            raise NotAccepted(f"The receiver answered {status}.", status)

    async def _send(self, name: str, post: Post) -> httpx.Response:
        target = safe_http.parse(post.url)
        receiver = await self._receiver(name, target)
        receiver.in_flight += 1
        try:
            await _check(receiver, target)
            try:
                return await _exchange(receiver, target, post)
            except STALE:
                if not receiver.has_answered:
                    raise
                receiver.has_answered = False
                return await _exchange(receiver, target, post)
        finally:
            receiver.in_flight -= 1

    async def _receiver(self, name: str, target: httpx.URL) -> _Receiver:
        port = target.port or safe_http.PORTS[target.scheme]
        key = (name, target.scheme, target.host, port)
        receiver = self._receivers.setdefault(key, _Receiver())
        receiver.used_at = time.monotonic()
        self._receivers.move_to_end(key)
        await self.close_idle()
        return receiver

    async def close_idle(self) -> None:
        """Close what has not been used for ``IDLE_S``, and the oldest beyond ``MOST_RECEIVERS``."""
        while self._receivers:
            key, oldest = next(iter(self._receivers.items()))
            is_idle = time.monotonic() - oldest.used_at > IDLE_S
            if oldest.in_flight or not (is_idle or len(self._receivers) > MOST_RECEIVERS):
                return
            del self._receivers[key]
            await oldest.transport.aclose()

    async def close(self) -> None:
        receivers, self._receivers = self._receivers, OrderedDict()
        for receiver in receivers.values():
            await receiver.transport.aclose()


async def _check(receiver: _Receiver, target: httpx.URL) -> None:
    """Look up and check the addresses, unless that was done a moment ago."""
    if time.monotonic() < receiver.checked_until:
        return
    addresses = await safe_http.resolve(target)
    receiver.checked_until = time.monotonic() + CHECKED_FOR_S
    if set(addresses) != set(receiver.addresses):
        former, receiver.transport = receiver.transport, _transport()
        receiver.addresses, receiver.has_answered = addresses, False
        await former.aclose()


async def _exchange(receiver: _Receiver, target: httpx.URL, post: Post) -> httpx.Response:
    """Send to the first checked address that takes a connection."""
    headers = {"Accept-Encoding": "identity", **post.headers}
    headers["Host"] = target.netloc.decode("ascii")
    host = target.raw_host.decode("ascii")
    failure: httpx.ConnectError | None = None
    for address in receiver.addresses:
        request = httpx.Request(
            "POST",
            target.copy_with(host=str(address), fragment=None),
            headers=headers,
            content=post.body,
            extensions={"sni_hostname": host},
        )
        try:
            response = await receiver.transport.handle_async_request(request)
        except httpx.ConnectError as refused:
            failure = refused
        else:
            receiver.has_answered = True
            return response
    raise failure or httpx.ConnectError(f"{host} has no address.")


async def _finish(response: httpx.Response) -> None:
    """Read a short answer to its end, which keeps the connection; close it after a long one."""
    size = 0
    with suppress(httpx.HTTPError, TimeoutError):
        async with asyncio.timeout(IGNORED_S):
            async for chunk in response.stream:  # type: ignore[union-attr]
                size += len(chunk)
                if size > IGNORED_BYTES:
                    break
    with suppress(httpx.HTTPError):
        await response.stream.aclose()  # type: ignore[union-attr]
