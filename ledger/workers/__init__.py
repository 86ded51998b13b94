"""Background work: the queues, the RQ jobs, and the sweeper."""

from __future__ import annotations

from ledger.workers.calls import Calls
from ledger.workers.leadership import last_beat
from ledger.workers.queue_threads import QueueThreads
from ledger.workers.start_checks import refuse_if_unsafe
from ledger.workers.sweeper import Sweeper, go_on, register_job, register_step

__all__ = [
    "Calls",
    "QueueThreads",
    "Sweeper",
    "go_on",
    "last_beat",
    "refuse_if_unsafe",
    "register_job",
    "register_step",
]
