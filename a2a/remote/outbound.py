"""HTTP to agents elsewhere: only to addresses that were checked, and never for long.

The names in a card, and every request to them, are resolved and checked against private ranges
(design §6); redirects are not followed; an answer has a largest size.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from typing import Any

import httpx

from ledger.webhooks import channel

WITHOUT_ZONE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?")
TIMEOUT_S = 15.0
LARGEST_ANSWER = 4 * 1024 * 1024  # bytes


class AnswerTooLarge(httpx.TransportError):
    """The other side sent more than any honest answer has."""


class CheckedTransport(httpx.AsyncBaseTransport):
    """Goes to the very addresses that were checked, so that a name cannot change in between."""

    def __init__(self) -> None:
        self._inner = httpx.AsyncHTTPTransport(verify=channel.trust(), trust_env=False)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        target = channel.target_of(str(request.url))
        name = target.raw_host.decode("ascii")
        port = target.port or channel.PORTS[target.scheme]
        addresses = await asyncio.to_thread(channel.checked_addresses, name, port)
        request.headers["Host"] = target.netloc.decode("ascii")
        request.extensions = {**request.extensions, "sni_hostname": name}
        failure: httpx.ConnectError | None = None
        for address in addresses:
            request.url = target.copy_with(host=str(address), fragment=None)
            try:
                response = await self._inner.handle_async_request(request)
            except httpx.ConnectError as refused:
                failure = refused
                continue
            assert isinstance(response.stream, httpx.AsyncByteStream)
            response.stream = _Limited(response.stream)
            return await _with_whole_times(response)
        raise failure or httpx.ConnectError(f"{name} has no address.")

    async def aclose(self) -> None:
        await self._inner.aclose()


async def _with_whole_times(response: httpx.Response) -> httpx.Response:
    """Some libraries (fasta2a 2.1) write a status' time without its zone, which the SDK refuses."""
    if not response.headers.get("content-type", "").startswith("application/"):
        return response
    body = await response.aread()
    await response.aclose()
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        said = None  # the caller will say so
    if _mend_times(said):
        body = json.dumps(said).encode()
    kept = {"content-type", "www-authenticate", "retry-after", "etag"}
    headers = {name: value for name, value in response.headers.items() if name in kept}
    return httpx.Response(response.status_code, headers=headers, content=body)


def _mend_times(said: Any, depth: int = 0) -> bool:
    """Whether a time was mended: UTC, as the specification has it."""
    if not isinstance(said, dict) or depth > 4:
        return False
    at = said.get("timestamp")
    if "state" in said and isinstance(at, str) and WITHOUT_ZONE.fullmatch(at):
        said["timestamp"] = f"{at}Z"
        return True
    return any(_mend_times(said.get(name), depth + 1) for name in ("result", "task", "status"))


class _Limited(httpx.AsyncByteStream):
    def __init__(self, stream: httpx.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._stream:
            size += len(chunk)
            if size > LARGEST_ANSWER:
                raise AnswerTooLarge(f"The answer has more than {LARGEST_ANSWER} bytes.")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


def client(token: str) -> httpx.AsyncClient:
    headers = {"User-Agent": "Assent"} | ({"Authorization": f"Bearer {token}"} if token else {})
    return httpx.AsyncClient(transport=CheckedTransport(), headers=headers, timeout=TIMEOUT_S)
