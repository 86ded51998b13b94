"""Skills that Assent executes itself: prepare a transaction, ask a person.

A process claims a task with a lease. When it dies, another one claims the task and proposes with
the same idempotency key, so that one task has at most one transaction.
"""

from __future__ import annotations

from a2a.builtin.claims import claim, due
from a2a.builtin.prepare_transaction import answer
from a2a.builtin.runs import begin, run, settle_all

__all__ = ["answer", "begin", "claim", "due", "run", "settle_all"]
