"""The commit job: execute an approved transaction, or ask what became of one."""

from __future__ import annotations

from uuid import UUID

from ledger.execution.accepted import ask_again
from ledger.execution.claims import claim, run
from ledger.execution.doubt import inquire
from ledger.transactions.requests import look_again


def commit(transaction_id: UUID) -> None:
    """Execute an approved transaction, or find out about one that was accepted or is in doubt.

    Does nothing when the transaction is done, claimed by another worker or withdrawn.
    """
    lease = claim(transaction_id)
    if lease is None and look_again(transaction_id):
        lease = claim(transaction_id)
    if lease is not None:
        run(lease)
    elif not ask_again(transaction_id):
        inquire(transaction_id)
