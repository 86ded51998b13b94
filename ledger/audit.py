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

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)
from django.conf import settings
from django.db import OperationalError, connection
from django.db.models import Max
from django.db.transaction import atomic

from ledger.models import Checkpoint, Event, Transaction

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)  # noqa: UP017


def _transactions() -> Iterator[tuple[UUID, str]]:
    return Transaction.objects.values_list("pk", "state").iterator(chunk_size=5_000)


# Whatever has a chain: its rows as (id, state). An upper room adds its own in AppConfig.ready().
subjects: dict[str, Callable[[], Iterable[tuple[UUID, str]]]] = {"transaction": _transactions}


class Broken(Exception):
    """The first thing found that cannot be true of an untouched ledger."""


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


def merkle_root(leaves: list[bytes]) -> bytes:
    """RFC 6962, section 2.1: leaves and nodes are hashed with different prefixes."""
    level = [hashlib.sha256(b"\x00" + leaf).digest() for leaf in leaves]
    if not level:
        return hashlib.sha256().digest()
    while len(level) > 1:
        pairs = [
            hashlib.sha256(b"\x01" + level[i] + level[i + 1]).digest()
            for i in range(0, len(level) - 1, 2)
        ]
        level = pairs + level[len(pairs) * 2 :]
    return level[0]


# --- checkpoints --------------------------------------------------------------------------


def make_checkpoint() -> Checkpoint | None:
    """Fold the heads of the chains that grew into one signed root.

    ``None`` when nothing happened since the last one, no key is set, or another writer was in
    the way for longer than a moment (the next round will do).
    """
    if not settings.AUDIT_KEY:
        return None
    before = Checkpoint.objects.order_by("-pk").first()
    after = before.upto_event if before else 0
    upto = _last_settled_event()
    if upto is None or upto <= after:
        return None
    heads = _heads(after, upto)
    root = merkle_root([_leaf(*head) for head in heads]).hex()
    previous = before.hash if before else ""
    key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(settings.AUDIT_KEY))
    content = _checkpoint_hash(after, upto, len(heads), root, previous)
    return Checkpoint.objects.create(
        after_event=after,
        upto_event=upto,
        heads=len(heads),
        root=root,
        previous_hash=previous,
        hash=content,
        public_key=key.public_key().public_bytes_raw().hex(),
        signature=key.sign(bytes.fromhex(content)).hex(),
    )


def _last_settled_event() -> int | None:
    """The largest event id below which no writer is still at work.

    Ids are given out before commit, so "the largest that I see" may skip one that commits later.
    Locking writers out for an instant settles it; if that takes longer, not now.
    """
    try:
        with atomic(), connection.cursor() as cursor:
            cursor.execute("SET LOCAL lock_timeout = '500ms'")
            cursor.execute("LOCK TABLE ledger_event IN SHARE MODE")
            last: int | None = Event.objects.aggregate(last=Max("pk"))["last"]
            return last
    except OperationalError:
        return None


def _heads(after: int, upto: int) -> list[tuple[UUID, str]]:
    """The last hash of every chain that grew between two events, in the order of the ids."""
    rows = (
        Event.objects.filter(pk__gt=after, pk__lte=upto)
        .order_by("subject", "-seq")
        .distinct("subject")
    )
    return list(rows.values_list("subject", "hash"))


def _leaf(subject: UUID, head: str) -> bytes:
    return subject.bytes + bytes.fromhex(head)


def _checkpoint_hash(after: int, upto: int, heads: int, root: str, previous: str) -> str:
    return hashlib.sha256(f"{after}:{upto}:{heads}:{root}:{previous}".encode()).hexdigest()


# --- verification -------------------------------------------------------------------------


def verify(trusted_keys: frozenset[str] | None = None) -> Proof:
    """Prove every chain, every row against its chain, and every checkpoint.

    Raises ``Broken``, naming the first row that is wrong. With ``trusted_keys`` (public keys in
    hexadecimal), checkpoints that another key signed are broken too.
    """
    proof = Proof()
    _verify_chains(proof)
    _verify_checkpoints(proof, trusted_keys)
    return proof


def _verify_chains(proof: Proof) -> None:
    events = Event.objects.order_by("subject", "seq").iterator(chunk_size=5_000)
    states: dict[UUID, str] = {}
    for rows in subjects.values():
        states.update(rows())
    for subject, chain in groupby(events, key=attrgetter("subject")):
        last = _verify_chain(chain, proof)
        stored = states.pop(subject, None)
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


def _verify_checkpoints(proof: Proof, trusted_keys: frozenset[str] | None) -> None:
    after, previous = 0, ""
    for point in Checkpoint.objects.order_by("pk").iterator():
        _verify_checkpoint(point, after, previous)
        if trusted_keys is not None and point.public_key not in trusted_keys:
            raise Broken(f"checkpoint {point.pk} is signed by a key that is not trusted.")
        after, previous = point.upto_event, point.hash
        proof.checkpoints += 1
        proof.public_keys.add(point.public_key)
    proof.uncovered = Event.objects.filter(pk__gt=after).count()


def _verify_checkpoint(point: Checkpoint, after: int, previous: str) -> None:
    if (point.after_event, point.previous_hash) != (after, previous):
        raise Broken(f"checkpoint {point.pk} does not follow the checkpoint before it.")
    heads = _heads(point.after_event, point.upto_event)
    if len(heads) != point.heads:
        raise Broken(f"checkpoint {point.pk} saw {point.heads} chains grow, now {len(heads)}.")
    if merkle_root([_leaf(*head) for head in heads]).hex() != point.root:
        raise Broken(f"the events under checkpoint {point.pk} are not those that it signed.")
    content = _checkpoint_hash(after, point.upto_event, point.heads, point.root, previous)
    if content != point.hash:
        raise Broken(f"checkpoint {point.pk} was changed.")
    key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(point.public_key))
    try:
        key.verify(bytes.fromhex(point.signature), bytes.fromhex(content))
    except InvalidSignature:
        raise Broken(f"the signature of checkpoint {point.pk} is not its key's.") from None
