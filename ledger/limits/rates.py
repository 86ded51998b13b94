"""Limits on what comes in: requests a second and bytes a day, checked before a body is read.

Each process keeps its buckets in memory, and lets in its part of each limit: the limit divided by
``ASSENT_WEB_PROCESSES``. So the limits hold without Redis and without a query; a process that
starts anew begins with full buckets.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address, ip_network

from django.conf import settings

from ledger.errors import LimitReached
from ledger.limits import refusals, terms
from ledger.limits.bounded import Bounded
from ledger.limits.stocks import reached
from ledger.limits.terms import Limit, Of

DAY_S = 86_400
MIB = 1 << 20
# A bucket is full with this many seconds' worth of requests, so that short bursts pass.
BURST_S = 2.0
MOST_BUCKETS = 50_000


@dataclass(slots=True)
class Bucket:
    """A token bucket: ``level`` is what may be taken now."""

    level: float
    at: float

    def wait(self, number: float, rate: float, capacity: float, now: float) -> float:
        """Seconds until ``number`` may be taken; 0 if that was done now.

        What is larger than the whole bucket may be taken when that is full.
        """
        self.level = min(capacity, self.level + (now - self.at) * rate)
        self.at = now
        missing = min(number, capacity) - self.level
        if missing > 0:
            return missing / rate
        self.level -= number
        return 0.0


@dataclass(frozen=True, slots=True)
class Holder:
    """The agent that a token belongs to."""

    tenant: str
    slug: str


_buckets: Bounded[tuple[Limit, Of, str], Bucket] = Bounded(MOST_BUCKETS)


def check_address(address: str) -> None:
    """Count a request that no known token vouches for. Raises ``LimitReached``."""
    _take(Limit.REQUESTS, Of.ADDRESS, network_of(address), 1)


def check_holder(token_hash: str, holder: Holder, size: int) -> None:
    """Count a request of ``size`` bytes with a known token. Raises ``LimitReached``."""
    name = f"{holder.tenant}/{holder.slug}"
    _take(Limit.REQUESTS, Of.TOKEN, token_hash, 1, holder)
    for of, key in ((Of.AGENT, name), (Of.TENANT, holder.tenant)):
        _take(Limit.REQUESTS, of, key, 1, holder)
        _take(Limit.BYTES, of, key, size, holder)


def _take(limit: Limit, of: Of, key: str, number: float, holder: Holder | None = None) -> None:
    tenant, slug = (holder.tenant, holder.slug) if holder else ("", "")
    most = terms.most(limit, of, tenant, slug)
    is_daily = limit is Limit.BYTES
    capacity = most * (MIB if is_daily else BURST_S) / settings.WEB_PROCESSES
    rate = most * (MIB / DAY_S if is_daily else 1) / settings.WEB_PROCESSES
    now = time.monotonic()
    bucket = _buckets.setdefault((limit, of, key), Bucket(capacity, now))
    wait_s = bucket.wait(number, rate, capacity, now)
    if wait_s > 0:
        refusals.count(limit, of, tenant=tenant, agent=slug if of is not Of.TENANT else "")
        raise reached(limit, of, most, wait_s)


# --- sign-ins ----------------------------------------------------------------------------------

# Failed sign-ins of one account in a minute: from one address, and from all of them together.
OF_ACCOUNT_HERE, OF_ACCOUNT = 5, 60


def attempt_sign_in(address: str, account: str) -> None:
    """Count an attempt; ``sign_in_succeeded`` takes it back. Raises ``LimitReached``."""
    for key, most in _sign_in_buckets(address, account):
        name = (Limit.SIGN_INS, Of.ADDRESS, key)
        now = time.monotonic()
        bucket = _buckets.setdefault(name, Bucket(most, now))
        wait_s = bucket.wait(1, most / 60, most, now)
        if wait_s > 0:
            refusals.count(Limit.SIGN_INS, Of.ADDRESS)
            raise reached(Limit.SIGN_INS, Of.ADDRESS, most, wait_s)


def sign_in_succeeded(address: str, account: str) -> None:
    for key, most in _sign_in_buckets(address, account):
        bucket = _buckets.get((Limit.SIGN_INS, Of.ADDRESS, key))
        if bucket is not None:
            bucket.level = min(most, bucket.level + 1)


def _sign_in_buckets(address: str, account: str) -> list[tuple[str, int]]:
    network, account = network_of(address), account.casefold()[:150]
    return [
        (network, terms.default(Limit.SIGN_INS, Of.ADDRESS)),
        (f"{network} {account}", OF_ACCOUNT_HERE),
        (f"* {account}", OF_ACCOUNT),
    ]


def network_of(address: str) -> str:
    """What counts as one address: of IPv6 the /64, which one machine has for itself."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped)
        return str(ip_network((parsed, 64), strict=False))
    return address


def forget() -> None:
    """For tests: all buckets are full again."""
    _buckets.clear()


def too_many(limit: Limit, of: Of, tenant: str, slug: str, number: int) -> LimitReached | None:
    """The refusal of one more, where ``number`` are open in this process already."""
    most = terms.most(limit, of, tenant, slug)
    if number < max(1, most // settings.WEB_PROCESSES):
        return None
    refusals.count(limit, of, tenant=tenant, agent=slug if of is Of.AGENT else "")
    return reached(limit, of, most)
