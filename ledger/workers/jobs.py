"""The RQ jobs of the ledger, and what enqueues them. Each job may run twice or never."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from uuid import UUID

from django.db import close_old_connections
from redis import RedisError

from ledger import couriers, doorbell, execution, mcp_upstreams, pins
from ledger.states import MOVES, State
from ledger.workers import queues

logger = logging.getLogger(__name__)

# The job that a transaction needs once it is in a state.
JOB_IN: dict[State | None, str] = {
    State.APPROVED: "commit",
    State.IN_DOUBT: "commit",
    State.ROLLING_BACK: "roll_back",
    State.COMPENSATING: "compensate",
}
# The same by the kind of event, so that the doorbell starts it at once. The sweeper's queries find
# whatever this misses.
JOB_FOR: dict[str, str] = {
    move.kind: JOB_IN[move.target] for move in MOVES if move.target in JOB_IN
}


def commit(transaction_id: str) -> None:
    """Execute one approved transaction and keep its receipt, or inquire about one in doubt."""
    close_old_connections()
    execution.commit(UUID(transaction_id))


def roll_back(transaction_id: str) -> None:
    """Release what one transaction holds."""
    close_old_connections()
    execution.roll_back(UUID(transaction_id))


def compensate(transaction_id: str) -> None:
    """Compensate one committed transaction."""
    close_old_connections()
    execution.compensate(UUID(transaction_id))


def read_mcp(upstream_id: str) -> None:
    """Read the list of tools of an MCP server again, and hold what has changed."""
    close_old_connections()
    mcp_upstreams.read_again(int(upstream_id))


def read_contract(tool_id: str) -> None:
    """Compare what the owner of a tool publishes with what was pinned."""
    close_old_connections()
    pins.read_again(int(tool_id))


def enqueue(name: str, subject: object, *, label: str = "") -> bool:
    """Put a job into the queue of its name; ``False`` when Redis does not answer.

    ``label`` is what operators see of a subject that is more than an id.
    """
    try:
        queues.put(name, str(subject), f"{name} {label or subject}")
    except RedisError as failure:
        logger.info("no queue for %s %s: %s", name, subject, failure)
        return False
    return True


def enqueue_after_event(
    subject: UUID, kind: str, deliveries: Sequence[int] = (), **_: object
) -> None:
    """Enqueue the job that the event calls for, and let couriers look at its deliveries."""
    if name := JOB_FOR.get(kind):
        enqueue(name, subject)
    if deliveries:
        try:
            couriers.ring()
        except RedisError as failure:
            logger.info("no bell for the couriers: %s", failure)


def register() -> None:
    """Register the ledger's own jobs; the sweeper finds those that are due."""
    for run in (commit, roll_back, compensate):
        queues.register_job(run.__name__, run)
    doorbell.register_bell(enqueue_after_event)
