"""Webhooks: an agent is told that one of its transactions was decided or has ended.

Signed as Standard Webhooks says (standardwebhooks.com); sent to the address that an operator set,
and only if that address is on the public internet or in a network the operator allows.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import ipaddress
import json
import socket
import ssl
from collections.abc import Iterable
from functools import cache

import httpx
from django.conf import settings
from django.utils import timezone

from ledger.encryption import WEBHOOK_SECRET_PREFIX
from ledger.events.outbox import Owed
from ledger.models import Agent, Delivery, Event, Transaction

KINDS = frozenset(
    {"approved", "rejected", "canceled", "expired", "committed", "failed", "fell_in_doubt",
     "aborted", "failure_settled", "let_go_by_hand", "failure_let_go_by_hand", "receipt_kept",
     "compensated"}
)  # fmt: skip
TIMEOUT_S = 10.0  # for everything: connecting, sending, and the answer
PORTS = {"http": 80, "https": 443}
# All that was ever given out (IANA). Python calls the deprecated ::10.0.0.1 and fec0::1 global.
UNICAST = ipaddress.ip_network("2000::/3")
# Python calls these global; nobody on the internet is meant by them: protocol assignments, the
# deprecated relays of 6to4, what Azure's own machines answer from, and documentation.
NOBODYS = [
    ipaddress.ip_network(network)
    for network in ("192.0.0.0/24", "192.88.99.0/24", "168.63.129.16/32", "3fff::/20")
]
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class AddressRefused(Exception):
    """The webhook points where none may point."""


class SecretMissing(Exception):
    """Nobody could tell our webhooks from a forger's."""


class NotAccepted(Exception):
    """The receiver did not answer with a 2xx."""


class WebhookChannel:
    name = "webhook"

    def wants(self, kind: str) -> bool:
        return kind in KINDS

    def address(self, event: Event) -> Iterable[Owed]:
        """The proposing agent, if it has a webhook."""
        if event.transaction is None:
            return []
        agent = _agent_of(event.transaction.proposed_by)
        if agent is None or not agent.webhook_url:
            return []
        return [Owed(f"{agent.tenant_id}/{agent.slug}")]

    def send(self, delivery: Delivery) -> None:
        """Tell how it stands now. Raises ``AddressRefused, NotAccepted, SecretMissing``."""
        agent = _agent_of(f"agent:{delivery.recipient}")
        if agent is None or not agent.webhook_url:
            return  # taken away since; nothing is owed any more
        assert delivery.event.transaction is not None
        news = news_of(delivery.event.transaction)
        send(agent.webhook_url, agent.webhook_secret, f"msg_{delivery.pk}", news)


def send(url: str, secret: str, message_id: str, news: dict[str, object]) -> None:
    """One signed webhook. Raises ``AddressRefused, NotAccepted, SecretMissing``."""
    if not secret:
        raise SecretMissing("There is no webhook secret: renew it in the admin.")
    body, at = json.dumps(news).encode(), str(int(timezone.now().timestamp()))
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "Assent",
        "webhook-id": message_id,
        "webhook-timestamp": at,
        "webhook-signature": signature(secret, message_id, at, body),
    }
    status = post(url, body, headers)
    if not 200 <= status < 300:
        raise NotAccepted(f"The receiver answered {status}.")


def news_of(row: Transaction) -> dict[str, object]:
    return {
        "type": f"transaction.{row.state}",
        "timestamp": timezone.now().isoformat(),
        "data": {
            "transaction_id": str(row.pk),
            "state": row.state,
            "ledger_status": row.ledger_status.value,
            "tool": row.tool,
            "receipt": row.receipt,
            "ending": row.ending,
            "ending_reason": row.ending_reason,
            "error": row.error,
            "run_id": row.run_id,
            "step_id": row.step_id,
        },
    }


def signature(secret: str, message_id: str, at: str, body: bytes) -> str:
    key = base64.b64decode(secret.removeprefix(WEBHOOK_SECRET_PREFIX))
    signed = hmac.new(key, f"{message_id}.{at}.".encode() + body, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(signed).decode()}"


def post(url: str, body: bytes, headers: dict[str, str]) -> int:
    """The HTTP status. Goes to the very addresses that were checked; follows no redirect.

    Raises ``AddressRefused, NotAccepted`` and what httpx raises.
    """
    target = target_of(url)
    name = target.raw_host.decode("ascii")
    addresses = checked_addresses(name, target.port or PORTS[target.scheme])
    return asyncio.run(_post_in_time(target, addresses, body, headers))


def target_of(url: str) -> httpx.URL:
    """The address, if it is one that a webhook may have. Raises ``AddressRefused``."""
    try:
        target = httpx.URL(url)
    except (httpx.InvalidURL, UnicodeError) as failure:
        raise AddressRefused(f"It is no address: {failure}") from None
    if target.scheme not in PORTS or not target.host or target.userinfo:
        raise AddressRefused("A webhook is an http or https address without credentials.")
    return target


async def _post_in_time(
    target: httpx.URL, addresses: list[Address], body: bytes, headers: dict[str, str]
) -> int:
    """httpx counts the seconds of each read; a receiver that drips would keep us for hours."""
    try:
        async with asyncio.timeout(TIMEOUT_S):
            return await _post(target, addresses, body, headers)
    except TimeoutError:
        raise NotAccepted(f"The receiver did not answer within {TIMEOUT_S:g} s.") from None


async def _post(
    target: httpx.URL, addresses: list[Address], body: bytes, headers: dict[str, str]
) -> int:
    """To the first address that takes the connection."""
    headers = {**headers, "Host": target.netloc.decode("ascii")}
    extensions = {"sni_hostname": target.raw_host.decode("ascii")}
    unreachable: httpx.ConnectError | None = None
    async with httpx.AsyncClient(verify=trust(), trust_env=False, timeout=None) as client:
        for address in addresses:
            there = target.copy_with(host=str(address), fragment=None)
            request = client.build_request(
                "POST", there, content=body, headers=headers, extensions=extensions
            )
            try:
                response = await client.send(request, stream=True, follow_redirects=False)
            except httpx.ConnectError as failure:
                unreachable = failure
                continue
            await response.aclose()  # what else it has to say is not read
            return response.status_code
    raise unreachable or NotAccepted("The receiver has no address.")


@cache
def trust() -> ssl.SSLContext:
    """Reading all the authorities takes longer than a delivery."""
    return httpx.create_ssl_context(trust_env=False)


def checked_addresses(host: str, port: int) -> list[Address]:
    """All addresses of the host, if every one is allowed. Raises ``AddressRefused``."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as failure:
        raise AddressRefused(f"{host} has no address: {failure}") from failure
    addresses = [ipaddress.ip_address(str(item[4][0]).partition("%")[0]) for item in found]
    for address in addresses:
        if not is_allowed(address):
            raise AddressRefused(f"{host} is {address}, which is not on the public internet.")
        if str(port) not in settings.WEBHOOK_PORTS and not _is_opened(address):
            raise AddressRefused(
                f"Port {port} is not one of {', '.join(settings.WEBHOOK_PORTS)}: an operator may "
                "add it to ASSENT_WEBHOOK_PORTS."
            )
    return addresses


def is_allowed(address: Address) -> bool:
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or _nat64(address)
        if inner is not None:
            return is_allowed(inner)
    if _is_opened(address):
        return True
    if address.version == 6 and address not in UNICAST:
        return False
    if any(address in network for network in NOBODYS if network.version == address.version):
        return False
    return address.is_global and not address.is_multicast


def _is_opened(address: Address) -> bool:
    """Whether the operator allowed it by ``ASSENT_WEBHOOK_NETWORKS``."""
    networks = [ipaddress.ip_network(network) for network in settings.WEBHOOK_NETWORKS]
    return any(address in network for network in networks if network.version == address.version)


def _nat64(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """RFC 6052: the well-known prefix carries an IPv4 address in its last 32 bits."""
    if address in ipaddress.ip_network("64:ff9b::/96"):
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return None


def _agent_of(principal: str) -> Agent | None:
    kind, _, name = principal.partition(":")
    tenant, _, slug = name.partition("/")
    if kind != "agent":
        return None
    return Agent.objects.filter(tenant=tenant, slug=slug, is_active=True).first()
