"""The proof that history is whole: hash chains, Merkle checkpoints, verification.

The database seals each event (``ledger/sql/events.sql``); this module computes the same hashes on
its own, from the columns, so that a seal forged inside the database is found as well.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from itertools import groupby
from operator import attrgetter
from uuid import UUID

from ledger import changes, checkpoint_proof
from ledger.checkpoint_proof import Broken
from ledger.models import Event, Transaction

__all__ = ["Broken", "Proof", "hash_of", "subjects", "verify"]

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)  # noqa: UP017


def _transactions() -> Iterator[tuple[UUID, str]]:
    return Transaction.objects.values_list("pk", "state").iterator(chunk_size=5_000)


# Whatever has a chain: its rows as (id, state). An upper room adds its own in AppConfig.ready().
subjects: dict[str, Callable[[], Iterable[tuple[UUID, str]]]] = {"transaction": _transactions}


@dataclass
class Proof:
    """What was proved, in numbers."""

    events: int = 0
    transactions: int = 0
    others: int = 0
    checkpoints: int = 0
    uncovered: int = 0
    public_keys: set[str] = field(default_factory=set)


def hash_of(event: Event) -> str:
    """SHA-256 over the netstrings of the event's fields, the hash before it being the first."""
    microseconds = (event.at - EPOCH) // timedelta(microseconds=1)
    fields = (
        event.previous_hash,
        str(event.subject),
        str(event.seq),
        event.tenant,
        event.kind,
        event.from_state,
        event.to_state,
        event.principal,
        event.principal_name,
        event.via,
        event.reason,
        event.details,
        str(microseconds),
    )
    sealed = hashlib.sha256()
    for text in fields:
        raw = text.encode()
        sealed.update(b"%d:%b" % (len(raw), raw))
    return sealed.hexdigest()


def verify(trusted_keys: frozenset[str] | None = None) -> Proof:
    """Prove every chain, every row against its chain, and every checkpoint.

    Raises ``Broken``, naming the first row that is wrong. With ``trusted_keys`` (public keys in
    hexadecimal), checkpoints that another key signed are broken too.
    """
    proof = Proof()
    _verify_chains(proof)
    covered = checkpoint_proof.verify(trusted_keys)
    proof.checkpoints = covered.checkpoints
    proof.public_keys = set(covered.public_keys)
    proof.uncovered = covered.uncovered
    return proof


def _verify_chains(proof: Proof) -> None:
    events = Event.objects.order_by("subject", "seq").iterator(chunk_size=5_000)
    states: dict[UUID, str] = {}
    for rows in subjects.values():
        states.update(rows())
    for subject, chain in groupby(events, key=attrgetter("subject")):
        last = _verify_chain(chain, proof)
        stored = states.pop(subject, None)
        if stored is None and last.kind in changes.KINDS:
            stored = ""  # an account has a history, but no state
        if stored != last.to_state:
            raise Broken(
                f"{_what(last)} is {stored}, but its last event "
                f"(event {last.pk}) left it {last.to_state}."
            )
        if last.transaction_id is not None:
            proof.transactions += 1
        else:
            proof.others += 1
    for subject in states:
        raise Broken(f"{subject} has no events.")


def _what(event: Event) -> str:
    return f"{'transaction' if event.transaction_id else 'task'} {event.subject}"


def _verify_chain(chain: Iterator[Event], proof: Proof) -> Event:
    before: Event | None = None
    for event in chain:
        expected_seq, expected_hash, expected_state = (
            (before.seq + 1, before.hash, before.to_state) if before else (1, "", "")
        )
        if event.seq != expected_seq:
            raise Broken(f"event {expected_seq} of {_what(event)} is missing.")
        if event.previous_hash != expected_hash or event.from_state != expected_state:
            raise Broken(f"event {event.pk} does not follow the event before it.")
        if event.hash != hash_of(event):
            raise Broken(f"event {event.pk} of {_what(event)} was changed.")
        before = event
        proof.events += 1
    assert before is not None
    return before
