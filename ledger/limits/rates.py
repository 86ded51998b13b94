"""Limits on what comes in: requests a second and bytes a day, checked before a body is read.

Each process keeps its buckets in memory, and lets in its part of each limit: the limit divided by
``ASSENT_WEB_PROCESSES``. So the limits hold without Redis and without a query; a process that
starts anew begins with full buckets.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import IPv6Address, ip_address, ip_network

from django.conf import settings

from ledger.errors import LimitReached
from ledger.foundation.bounded import Bounded
from ledger.limits import refusals, terms
from ledger.limits.stocks import reached
from ledger.limits.terms import Limit, Of

DAY_S = 86_400
MIB = 1 << 20
# A bucket is full with this many seconds' worth of requests, so that short bursts pass.
BURST_S = 2.0
# A limit that operators change counts this much later; what nobody uses is forgotten.
LOOK_UP_AGAIN_S = 1.0
MOST_BUCKETS = 50_000  # of one kind: a flood of one kind evicts no bucket of another


@dataclass(slots=True)
class Bucket:
    """A token bucket: ``level`` is what may be taken now."""

    level: float
    at: float

    def look(self, number: float, rate: float, capacity: float, now: float) -> float:
        """Seconds until ``number`` may be taken.

        What is larger than the whole bucket may be taken when that is full.
        """
        self.level = min(capacity, self.level + (now - self.at) * rate)
        self.at = now
        return max(0.0, min(number, capacity) - self.level) / rate


@dataclass(frozen=True, slots=True)
class Holder:
    """The agent that a token belongs to."""

    tenant: str
    slug: str


@dataclass(frozen=True, slots=True)
class Measure:
    """A bucket in this process, and by what it fills."""

    limit: Limit
    of: Of
    holder: Holder | None
    most: int  # the limit itself
    bucket: Bucket
    capacity: float
    rate: float  # a second

    def take(self, number: float, now: float) -> None:
        """Raises ``LimitReached``."""
        self.look(number, now)
        self.bucket.level -= number

    def look(self, number: float, now: float) -> None:
        """As ``take``, but takes nothing."""
        wait_s = self.bucket.look(number, self.rate, self.capacity, now)
        if wait_s > 0:
            holder = self.holder or Holder("", "")
            agent = holder.slug if self.of is not Of.TENANT else ""
            refusals.count(self.limit, self.of, tenant=holder.tenant, agent=agent)
            raise reached(self.limit, self.of, self.most, wait_s)


_tables: dict[tuple[str, str], Bounded[str, Bucket]] = {}
# Of each token, the measures of its requests, and when they were looked up.
_measures: Bounded[str, tuple[float, list[Measure]]] = Bounded(MOST_BUCKETS)


def _bucket(kind: tuple[str, str], key: str, capacity: float) -> Bucket:
    """The bucket with this key; one that is new is full."""
    table = _tables.get(kind)
    if table is None:
        table = _tables.setdefault(kind, Bounded(MOST_BUCKETS))
    return table.setdefault(key, Bucket(capacity, time.monotonic()))


def check_address(address: str) -> None:
    """Count a request that no known token vouches for. Raises ``LimitReached``."""
    _measure(Limit.REQUESTS, Of.ADDRESS, network_of(address)).take(1, time.monotonic())


def check_holder(token_hash: str, holder: Holder, size: int) -> None:
    """Count a request of ``size`` bytes with a known token. Raises ``LimitReached``."""
    now = time.monotonic()
    known = _measures.get(token_hash)
    if known is None or now - known[0] > LOOK_UP_AGAIN_S or known[1][0].holder != holder:
        known = (now, _measures_of(token_hash, holder))
        _measures.put(token_hash, known)
    # A request that one of them refuses counts for none.
    takes = [(each, size if each.limit is Limit.BYTES else 1) for each in known[1]]
    for measure, number in takes:
        measure.look(number, now)
    for measure, number in takes:
        measure.bucket.level -= number


def _measures_of(token_hash: str, holder: Holder) -> list[Measure]:
    name = f"{holder.tenant}/{holder.slug}"
    return [
        _measure(Limit.REQUESTS, Of.TOKEN, token_hash, holder),
        _measure(Limit.REQUESTS, Of.AGENT, name, holder),
        _measure(Limit.BYTES, Of.AGENT, name, holder),
        _measure(Limit.REQUESTS, Of.TENANT, holder.tenant, holder),
        _measure(Limit.BYTES, Of.TENANT, holder.tenant, holder),
    ]


def count_bytes(holder: Holder, size: int) -> None:
    """Count bytes that have come in already: what exceeds the limit delays the next requests."""
    for of, key in ((Of.AGENT, f"{holder.tenant}/{holder.slug}"), (Of.TENANT, holder.tenant)):
        _measure(Limit.BYTES, of, key, holder).bucket.level -= size


def _measure(limit: Limit, of: Of, key: str, holder: Holder | None = None) -> Measure:
    most, capacity, rate = _size_of(limit, of, holder)
    return Measure(limit, of, holder, most, _bucket((limit, of), key, capacity), capacity, rate)


def _size_of(limit: Limit, of: Of, holder: Holder | None) -> tuple[int, float, float]:
    """The limit, and a bucket's capacity and rate a second in this process."""
    tenant, slug = (holder.tenant, holder.slug) if holder else ("", "")
    most = terms.most(limit, of, tenant, slug)
    is_daily = limit is Limit.BYTES
    capacity = most * (MIB if is_daily else BURST_S) / settings.WEB_PROCESSES
    rate = most * (MIB / DAY_S if is_daily else 1) / settings.WEB_PROCESSES
    return most, capacity, rate


def count_rejection(holder: Holder) -> None:
    """Count a task that is rejected, which is stored all the same. Raises ``LimitReached``."""
    name, most = f"{holder.tenant}/{holder.slug}", terms.default(Limit.REJECTIONS, Of.AGENT)
    capacity = most / settings.WEB_PROCESSES
    bucket = _bucket((Limit.REJECTIONS, Of.AGENT), name, capacity)
    measure = Measure(Limit.REJECTIONS, Of.AGENT, holder, most, bucket, capacity, capacity / 60)
    measure.take(1, time.monotonic())


# --- sign-ins ----------------------------------------------------------------------------------

# Failed sign-ins of one account in a minute: from one address, and from all of them together.
OF_ACCOUNT_HERE, OF_ACCOUNT = 5, 60


class Door(StrEnum):
    """A way to sign in from an address: whoever fails at one is not kept from the others."""

    PEOPLE = "network"
    TOKENS = "tokens"
    CLIENTS = "clients"  # programs that come for the first time


def attempt_sign_in(address: str, account: str, door: Door = Door.PEOPLE) -> None:
    """Count an attempt; ``sign_in_succeeded`` takes it back. Raises ``LimitReached``.

    Without an account, as for a passkey or a link, it counts for the address alone.
    A refused attempt counts nowhere, so that an address that has to wait locks no account.
    """
    buckets = _sign_in_buckets(address, account, door)
    now = time.monotonic()
    for bucket, most in buckets:
        wait_s = bucket.look(1, most / 60, most, now)
        if wait_s > 0:
            refusals.count(Limit.SIGN_INS, Of.ADDRESS)
            raise reached(Limit.SIGN_INS, Of.ADDRESS, most, wait_s)
    for bucket, _ in buckets:
        bucket.level -= 1


# Wrong codes of one person: from everywhere so many at once, and so many a minute after that.
CODES, CODES_A_MINUTE = 5, 1


def attempt_code(address: str, person: str) -> None:
    """Count a code, or a confirmation. Raises ``LimitReached``; ``code_was_right`` takes it back.

    The person is known to have passed a first step, so strangers cannot lock anybody out by this.
    """
    now = time.monotonic()
    for bucket, most, rate in _code_buckets(address, person):
        wait_s = bucket.look(1, rate / 60, most, now)
        if wait_s > 0:
            refusals.count(Limit.SIGN_INS, Of.ADDRESS)
            raise reached(Limit.SIGN_INS, Of.ADDRESS, most, wait_s)
    for bucket, _, _ in _code_buckets(address, person):
        bucket.level -= 1


def code_was_right(address: str, person: str) -> None:
    for bucket, most, _ in _code_buckets(address, person):
        bucket.level = min(most, bucket.level + 1)


def _code_buckets(address: str, person: str) -> list[tuple[Bucket, int, float]]:
    """The buckets of a code, each with its capacity and its attempts a minute."""
    network, most = network_of(address), terms.default(Limit.SIGN_INS, Of.ADDRESS)
    return [
        (_bucket((Limit.SIGN_INS, "network"), network, most), most, most),
        (_bucket((Limit.SIGN_INS, "codes"), person, CODES), CODES, CODES_A_MINUTE),
    ]


def account_has_to_wait(address: str, account: str) -> bool:
    """True if attempts to sign in to the account would be refused now, from any address or here."""
    now = time.monotonic()
    buckets = _sign_in_buckets(address, account)[1:]
    return any(bucket.look(1, most / 60, most, now) > 0 for bucket, most in buckets)


def has_to_wait(address: str, door: Door = Door.PEOPLE) -> bool:
    """True if every attempt to sign in from the address would be refused now."""
    ((bucket, most),) = _sign_in_buckets(address, "", door)
    return bucket.look(1, most / 60, most, time.monotonic()) > 0


def sign_in_succeeded(address: str, account: str, door: Door = Door.PEOPLE) -> None:
    for bucket, most in _sign_in_buckets(address, account, door):
        bucket.level = min(most, bucket.level + 1)


def _sign_in_buckets(
    address: str, account: str, door: Door = Door.PEOPLE
) -> list[tuple[Bucket, int]]:
    """The buckets of an attempt, each with its attempts a minute."""
    network, account = network_of(address), account.casefold()[:150]
    buckets = (
        (door, network, terms.default(Limit.SIGN_INS, Of.ADDRESS)),
        ("account here", f"{network} {account}", OF_ACCOUNT_HERE),
        ("account", account, OF_ACCOUNT),
    )
    counting = buckets if account else buckets[:1]
    return [(_bucket((Limit.SIGN_INS, kind), key, most), most) for kind, key, most in counting]


def network_of(address: str) -> str:
    """The network that counts as one address: of IPv6 the /64, which one machine has for itself."""
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
    _tables.clear()
    _measures.clear()


def too_many(limit: Limit, of: Of, tenant: str, slug: str, number: int) -> LimitReached | None:
    """The refusal of one more, where ``number`` are open in this process already."""
    most = terms.most(limit, of, tenant, slug)
    if number < max(1, most // settings.WEB_PROCESSES):
        return None
    refusals.count(limit, of, tenant=tenant, agent=slug if of is Of.AGENT else "")
    return reached(limit, of, most)
