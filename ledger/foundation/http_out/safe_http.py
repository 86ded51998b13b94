"""HTTP to addresses that others gave us, which must not lead into our own network (SSRF).

Every address of a host name must be on the public internet or in a network that the operator
allowed. The request goes to the very addresses that were checked, so a second DNS answer
(rebinding) changes nothing. Redirects are not followed and no proxy is used; the whole request has
a deadline, and the answer a largest size. A name that nobody answers for costs a thread of its own.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from urllib.parse import urlsplit

import httpx
from django.conf import settings

from ledger.foundation.http_out import dns

DELIVERY_TIMEOUT_S = 10.0  # for everything: connecting, sending, and the answer
PORTS = {"http": 80, "https": 443}
# All IPv6 unicast that was ever assigned (IANA). Python calls ::10.0.0.1 and fec0::1 global.
UNICAST = ipaddress.ip_network("2000::/3")
# Python calls these global, but no host on the internet has them: protocol assignments, the
# deprecated 6to4 relays, the address of Azure's platform services, and documentation.
NOT_PUBLIC = [
    ipaddress.ip_network(network)
    for network in ("192.0.0.0/24", "192.88.99.0/24", "168.63.129.16/32", "3fff::/20")
]
NAT64 = ipaddress.ip_network("64:ff9b::/96")
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True)
class Post:
    """One request to a receiver, of which only the status of the answer counts."""

    url: str
    body: bytes
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Credentials:
    """Proof we show to a host besides our signature: headers, or TLS with a client certificate."""

    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    tls: ssl.SSLContext | None = None


class CredentialUnusable(Exception):
    """There is no such credential, or it is for other hosts: nothing was sent."""


class AddressRefused(Exception):
    """The URL is not one that we call, or it resolves to a forbidden address."""


class AnswerRefused(httpx.TransportError):
    """The answer is larger than allowed, or compressed although we asked for it plain."""


class Silent(Exception):
    """Nobody answered in time: the receiver, or the server of its name."""


class NameNotFoundInTime(AddressRefused, Silent):
    """Nobody answered for the name of the receiver in time."""


class NotAccepted(Exception):
    """The receiver did not answer with a 2xx, or not in time: then ``status`` is 0."""

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.status = status


class NotInTime(NotAccepted, Silent):
    """The receiver did not answer in time."""


def deliver(url: str, body: bytes, headers: Mapping[str, str]) -> None:
    """POST to a receiver; only the status of its answer is read.

    Raises ``AddressRefused``, ``NotAccepted`` and ``httpx.HTTPError``.
    """
    try:
        response = post(url, body, headers, timeout_s=DELIVERY_TIMEOUT_S, largest_answer=0)
    except TimeoutError:
        raise NotInTime(f"The receiver did not answer within {DELIVERY_TIMEOUT_S:g} s.") from None
    if not 200 <= response.status_code < 300:
        status = response.status_code
        raise NotAccepted(f"The receiver answered {status}.", status)


def post(
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    *,
    timeout_s: float,
    largest_answer: int,
    any_network: bool = False,
) -> httpx.Response:
    """POST once, and read at most ``largest_answer`` bytes; with 0 the answer's body is not read.

    ``any_network`` is for addresses that the operator configured: they are not checked.

    Raises ``AddressRefused``, ``TimeoutError`` and ``httpx.HTTPError``, of which ``AnswerRefused``
    is one.
    """
    request = httpx.Request("POST", parse(url), content=body, headers=headers)
    return send(
        request, timeout_s=timeout_s, largest_answer=largest_answer, any_network=any_network
    )


def send(
    request: httpx.Request,
    *,
    timeout_s: float,
    largest_answer: int,
    any_network: bool = False,
    tls: ssl.SSLContext | None = None,
) -> httpx.Response:
    """Send one request, and read the answer as ``post`` does. Raises as ``post`` does.

    ``tls`` is for a host that asks for a client certificate.
    """
    parse(str(request.url))
    transport = SafeTransport(largest_answer=largest_answer, any_network=any_network, tls=tls)

    async def exchange() -> httpx.Response:
        async with client(transport, timeout_s=timeout_s) as http:
            for name, value in http.headers.items():
                request.headers.setdefault(name, value)
            response = await http.send(request, stream=True)
            try:
                if largest_answer:
                    await response.aread()
            finally:
                await response.aclose()
            return response

    return asyncio.run(exchange())


@asynccontextmanager
async def client(
    transport: SafeTransport, *, timeout_s: float, headers: Mapping[str, str] | None = None
) -> AsyncIterator[httpx.AsyncClient]:
    """A client for one exchange of at most ``timeout_s`` seconds in all.

    httpx limits the time of each single read only, so a server that drips would keep us for hours.

    Raises ``TimeoutError``; its requests raise ``AddressRefused`` and ``httpx.HTTPError``.
    """
    defaults = {"User-Agent": "Assent", "Accept-Encoding": "identity"}
    async with (
        asyncio.timeout(timeout_s),
        httpx.AsyncClient(
            transport=transport, headers={**defaults, **(headers or {})}, timeout=None
        ) as http,
    ):
        yield http


class SafeTransport(httpx.AsyncBaseTransport):
    """Connects to the addresses that were checked, one after the other; bounds the answer."""

    def __init__(
        self,
        *,
        largest_answer: int,
        any_network: bool = False,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._inner = httpx.AsyncHTTPTransport(verify=tls or trust(), trust_env=False)
        self._largest_answer = largest_answer
        self._any_network = any_network

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if self._any_network:
            response = await self._inner.handle_async_request(request)
        else:
            response = await self._send_to_checked(request)
        assert isinstance(response.stream, httpx.AsyncByteStream)
        encoding = response.headers.get("Content-Encoding", "identity")
        response.stream = _Bounded(response.stream, encoding, self._largest_answer)
        return response

    async def _send_to_checked(self, request: httpx.Request) -> httpx.Response:
        target = parse(str(request.url))
        addresses = await resolve(target)
        request.headers["Host"] = target.netloc.decode("ascii")
        host = target.raw_host.decode("ascii")
        request.extensions = {**request.extensions, "sni_hostname": host}
        failure: httpx.ConnectError | None = None
        for address in addresses:
            request.url = target.copy_with(host=str(address), fragment=None)
            try:
                return await self._inner.handle_async_request(request)
            except httpx.ConnectError as refused:
                failure = refused
        raise failure or httpx.ConnectError(f"{host} has no address.")

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Bounded(httpx.AsyncByteStream):
    """The body of an answer; raises ``AnswerRefused`` instead of growing without end."""

    def __init__(self, stream: httpx.AsyncByteStream, encoding: str, largest: int) -> None:
        self._stream = stream
        self._encoding = encoding
        self._largest = largest

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._encoding != "identity":  # a few bytes may unpack to gigabytes
            raise AnswerRefused("The answer is compressed, although we asked for it plain.")
        size = 0
        async for chunk in self._stream:
            size += len(chunk)
            if size > self._largest:
                raise AnswerRefused(f"The answer has more than {self._largest} bytes.")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


@cache
def trust() -> ssl.SSLContext:
    """The certificate authorities; loading them takes longer than a delivery."""
    return httpx.create_ssl_context(trust_env=False)


def check_form(url: str) -> None:
    """Raises ``AddressRefused`` for a URL that we never call; looks up no name.

    A name is looked up whenever something is sent to it: what it leads to may change.
    """
    target = parse(url)
    if target.port == 0 or re.search(r"\s", url):
        raise AddressRefused("It has white space, or port 0.")
    try:
        ipaddress.ip_address(target.raw_host.decode("ascii").strip("[]"))
    except ValueError:
        return
    checked_addresses(target)


def parse(url: str) -> httpx.URL:
    """The URL, if its form is allowed; its host is not resolved. Raises ``AddressRefused``."""
    try:
        urlsplit(url)  # httpx writes a loose bracket into the name of the host
        target = httpx.URL(url)
    except (httpx.InvalidURL, ValueError) as failure:
        raise AddressRefused(f"It is not a URL: {failure}") from None
    if target.scheme not in PORTS or not target.host or target.userinfo:
        raise AddressRefused("It must be an http or https URL without credentials.")
    return target


async def resolve(target: httpx.URL) -> list[Address]:
    """``checked_addresses`` without blocking, and with a deadline."""
    try:
        return await dns.in_time(checked_addresses, target)
    except dns.LookupTookTooLong as refusal:
        raise NameNotFoundInTime(str(refusal)) from None


def checked_addresses(target: httpx.URL) -> list[Address]:
    """All addresses of the host, if every one is allowed. Raises ``AddressRefused``."""
    host, port = target.raw_host.decode("ascii"), target.port or PORTS[target.scheme]
    try:
        entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as failure:
        raise AddressRefused(f"{host} has no address: {failure}") from failure
    addresses = [ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in entries]
    for address in addresses:
        if not is_allowed(address):
            what = host if host == str(address) else f"{host} is {address}, which"
            raise AddressRefused(
                f"{what} is not on the public internet: an operator may add its network to "
                "ASSENT_WEBHOOK_NETWORKS."
            )
        if str(port) not in settings.WEBHOOK_PORTS and not _is_in_allowed_network(address):
            raise AddressRefused(
                f"Port {port} is not one of {', '.join(settings.WEBHOOK_PORTS)}: an operator may "
                "add it to ASSENT_WEBHOOK_PORTS."
            )
    return addresses


def is_allowed(address: Address) -> bool:
    """True if it is public, or in a network of ``ASSENT_WEBHOOK_NETWORKS``."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or _nat64(address)
        if inner is not None:
            return is_allowed(inner)
    if _is_in_allowed_network(address):
        return True
    if address.version == 6 and address not in UNICAST:
        return False
    if any(address in network for network in NOT_PUBLIC if network.version == address.version):
        return False
    return address.is_global and not address.is_multicast


def _is_in_allowed_network(address: Address) -> bool:
    networks = [ipaddress.ip_network(network) for network in settings.WEBHOOK_NETWORKS]
    return any(address in network for network in networks if network.version == address.version)


def _nat64(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """RFC 6052: the well-known prefix carries an IPv4 address in its last 32 bits."""
    return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF) if address in NAT64 else None
