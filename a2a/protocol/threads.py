"""Lanes for operations outside of batches, shared fairly by the agents that call.

An agent has half of the threads at most. Nothing that others depend on runs in them: whose token
it is, or what watchers look for.
"""

from __future__ import annotations

from ledger.errors import LimitReached
from ledger.foundation.lanes import Lane

MOST_WAITING = 100  # operations of one agent; more are refused at once


def lane_shared_by_agents(name: str, threads: int) -> Lane:
    return Lane(
        name,
        threads,
        most_of_one=threads // 2,
        most_waiting_of_one=MOST_WAITING,
        refusal=_too_many,
    )


def _too_many() -> LimitReached:
    return LimitReached(
        f"At most {MOST_WAITING} operations of an agent wait at once.",
        hint="Nothing was done. Repeat it once others of yours were answered.",
    )


quick = lane_shared_by_agents("a2a", 8)
# A message may have a tool plan a transaction, which takes seconds; reads do not wait for that.
patient = lane_shared_by_agents("a2a-patient", 16)
