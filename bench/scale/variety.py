"""Variety of the rows of the seeded ledger: SQL expressions over the number of a row.

``g.n`` counts the rows in the order of time, ``g.r`` scatters them evenly over [0, 1000000), each
value of ``g.m`` is in ``RARE`` of them, and ``g.t`` is when they were created. Every figure is the
same in each run.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

YEARS = 2
RARE = 200  # rows


@dataclass(frozen=True, slots=True)
class Series:
    """So many rows over two years, the last one half an hour before ``now``."""

    number: int
    now: datetime

    def fraction(self, of: int) -> Series:
        return replace(self, number=self.number // of)

    def __str__(self) -> str:
        """A table expression."""
        number, now = self.number, f"timestamptz '{self.now.isoformat()}'"
        age = f"interval '{YEARS} years' * (1.0 - n::float8 / {number + 1})"
        return (
            "(SELECT n,"
            " (n::bigint * 48271 % 2147483647 * 16807 % 2147483647) % 1000000 AS r,"
            f" n % {max(number // RARE, 10)} AS m,"
            f" {now} - interval '30 minutes' - {age} AS t FROM generate_series(1, {number}) n)"
        )


def id_of(what: str) -> str:
    """A UUID of version 7 with the time of the row."""
    digits = f"md5('{what}' || g.n)"
    milliseconds = "lpad(to_hex((extract(epoch FROM g.t) * 1000)::bigint), 12, '0')"
    return f"({milliseconds} || '7' || left({digits}, 3) || '8' || right({digits}, 15))::uuid"


def choice(shares: dict[str, int], number: str = "g.r % 1000") -> str:
    """One of the keys, each as often as its share of a thousand."""
    upto, cases = 0, []
    for name, share in shares.items():
        upto += share
        cases.append(f"WHEN {number} < {upto} THEN '{name}'")
    return f"(CASE {' '.join(cases)} ELSE '{name}' END)"


def _of(words: str, number: str) -> str:
    return f"(ARRAY{words.split()!r}::text[])[1 + ({number}) % {len(words.split())}]"


def _rarely(name: str, place: int, usual: str) -> str:
    """The name in ``RARE`` rows, evenly spread."""
    return f"(CASE WHEN g.m = {place} THEN '{name}' ELSE {usual} END)"


# What is rare is in as many rows of a small ledger as of a large one, so that pages about it have
# as many rows to show.
TENANT = _rarely("tiny", 1, choice({"bench": 600, "middle": 250, "small": 150}))
AGENT = _rarely("guest", 2, choice({"bench": 700, "night": 250, "day": 50}, "g.r / 3 % 1000"))
TOOL = _rarely(
    "seldom", 3, choice({"measured": 550, "refund": 300, "rebook": 150}, "g.r / 7 % 1000")
)
STATE = _rarely(
    "failed", 4, choice({"committed": 850, "aborted": 120, "compensated": 30}, "g.r / 11 % 1000")
)
RISK = _rarely("CRITICAL", 5, choice({"LOW": 700, "MEDIUM": 250, "HIGH": 50}, "g.r / 13 % 1000"))
TASK_STATE = _rarely("failed", 4, choice({"completed": 950, "canceled": 50}, "g.r / 11 % 1000"))
SKILL = _rarely("seldom", 3, choice({"measured": 700, "summarise": 300}, "g.r / 7 % 1000"))
READONLY = _rarely("peek", 3, "'look'")
TENANTS = "bench", "middle", "small", "tiny"
AGENTS = "bench", "night", "day", "guest"
PROPOSER = f"('agent:' || {TENANT} || '/' || {AGENT})"
AGENT_NAME = f"(initcap({AGENT}) || ' agent')"
PERSON = (
    "("
    + _of("Ada Grace Alan Edsger Barbara Donald Tony Leslie Radia Frances Jean Niklaus", "g.r / 3")
    + " || ' ' || "
    + _of("Lovelace Hopper Turing Dijkstra Liskov Knuth Hoare Lamport Perlman Allen", "g.r / 37")
    + ")"
)
PAYMENT = "('pay_' || left(md5('payment' || g.n), 16))"
CONTENT = (
    f"jsonb_build_object('payment', {PAYMENT}, 'holder', {PERSON}, 'notify', true, 'reason',"
    " 'The customer was charged twice for one booking, and asks for the money back.')"
)
# Words in all rows, in one of ten, in a few, and in the older half only.
SUMMARY = (
    f"(initcap({TOOL}) || ' ' || (g.r % 90000 / 100.0)::numeric(8, 2) || ' EUR of payment '"
    f" || {PAYMENT} || ' to ' || {PERSON}"
    " || CASE WHEN g.r % 10 = 7 THEN ' after a complaint' ELSE '' END"
    " || CASE WHEN g.m = 6 THEN ' for the auditors' ELSE '' END"
    " || CASE WHEN g.m = 7 AND g.r % 20 = 0 THEN ' by courtorder' ELSE '' END"
    " || CASE WHEN g.t < now() - interval '1 year' THEN ' by telefax' ELSE '' END)"
)
