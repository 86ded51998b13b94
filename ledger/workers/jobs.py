"""The jobs of the ledger, and what enqueues them. Each job may run twice or never."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from uuid import UUID

from redis import RedisError

from ledger import execution
from ledger.delivery import couriers
from ledger.foundation import doorbell
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


def enqueue(name: str, job_id: object) -> bool:
    """Put the id into the queue of this name; ``False`` when Redis does not answer."""
    try:
        queues.put(name, job_id)
    except RedisError as failure:
        logger.info("no queue for %s %s: %s", name, job_id, failure)
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
    queues.register_job("commit", execution.commit, UUID)
    queues.register_job("roll_back", execution.roll_back, UUID)
    queues.register_job("compensate", execution.compensate, UUID)
    doorbell.register_bell(enqueue_after_event)
