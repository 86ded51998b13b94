"""Webhooks: an agent is told that one of its transactions was decided or has ended.

Signed as Standard Webhooks says (standardwebhooks.com); sent to the address that an operator set,
and only if that address is on the public internet or in a network the operator allows.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import ipaddress
import json
import secrets
import socket
from collections.abc import Iterable
from urllib.parse import urlsplit

import httpx
from django.conf import settings
from django.utils import timezone

from ledger.models import Agent, Delivery, Event, Transaction

KINDS = frozenset(
    {"approved", "rejected", "canceled", "expired", "fell_in_doubt", "committed", "aborted",
     "failure_settled", "compensated"}
)  # fmt: skip
TIMEOUT_S = 10.0
SECRET_PREFIX = "whsec_"
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class AddressRefused(Exception):
    """The webhook points where none may point."""


class NotAccepted(Exception):
    """The receiver did not answer with a 2xx."""


class WebhookChannel:
    name = "webhook"

    def wants(self, kind: str) -> bool:
        return kind in KINDS

    def address(self, event: Event) -> Iterable[str]:
        """The proposing agent, if it has a webhook."""
        agent = _agent_of(event.transaction.proposed_by)
        return [f"{agent.tenant_id}/{agent.slug}"] if agent and agent.webhook_url else []

    def send(self, delivery: Delivery) -> None:
        """Tell how the transaction stands now. Raises ``AddressRefused, NotAccepted``."""
        agent = _agent_of(f"agent:{delivery.recipient}")
        if agent is None or not agent.webhook_url:
            return  # taken away since; nothing is owed any more
        body = json.dumps(news_of(delivery.event.transaction)).encode()
        message_id, at = f"msg_{delivery.pk}", str(int(timezone.now().timestamp()))
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "Assent",
            "webhook-id": message_id,
            "webhook-timestamp": at,
            "webhook-signature": signature(agent.webhook_secret, message_id, at, body),
        }
        status = post(agent.webhook_url, body, headers)
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


def new_secret() -> str:
    return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()


def signature(secret: str, message_id: str, at: str, body: bytes) -> str:
    key = base64.b64decode(secret.removeprefix(SECRET_PREFIX))
    signed = hmac.new(key, f"{message_id}.{at}.".encode() + body, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(signed).decode()}"


def post(url: str, body: bytes, headers: dict[str, str]) -> int:
    """The HTTP status. Goes to the very address that was checked; follows no redirect."""
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.username:
        raise AddressRefused("A webhook is an http or https address without credentials.")
    port = parts.port or (443 if parts.scheme == "https" else 80)
    address = checked_address(parts.hostname, port)
    host = f"[{address}]" if address.version == 6 else str(address)
    target = parts._replace(netloc=f"{host}:{port}", fragment="").geturl()
    request = httpx.Request(
        "POST",
        target,
        content=body,
        headers={**headers, "Host": parts.netloc},
        extensions={
            "sni_hostname": parts.hostname,
            "timeout": httpx.Timeout(TIMEOUT_S).as_dict(),
        },
    )
    with httpx.Client(follow_redirects=False, trust_env=False) as client:
        response = client.send(request, stream=True)
        response.close()
    return response.status_code


def checked_address(host: str, port: int) -> Address:
    """Every address of the host must be allowed, and the first one is used."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as failure:
        raise AddressRefused(f"{host} has no address: {failure}") from failure
    addresses = [ipaddress.ip_address(str(item[4][0]).partition("%")[0]) for item in found]
    for address in addresses:
        if not is_allowed(address):
            raise AddressRefused(f"{host} is {address}, which is not on the public internet.")
    return addresses[0]


def is_allowed(address: Address) -> bool:
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or _nat64(address)
        if inner is not None:
            return is_allowed(inner)
    networks = [ipaddress.ip_network(network) for network in settings.WEBHOOK_NETWORKS]
    if any(address in network for network in networks if network.version == address.version):
        return True
    return address.is_global and not address.is_multicast


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
