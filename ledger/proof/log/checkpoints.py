"""Checkpoints of the transparency log: making them, and proofs against them.

A checkpoint is a C2SP signed note: how many sealed events there are, and the RFC 6962 root over
their hashes. ``ledger.proof.log.checkpoint_proof`` verifies them all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.conf import settings
from django.db import OperationalError, connection
from django.db.models import Min, Q, QuerySet
from django.db.transaction import atomic

from ledger.events import last_settled_event
from ledger.foundation.crypto import merkle, signed_notes
from ledger.foundation.crypto.merkle import ProofRefused
from ledger.foundation.crypto.signed_notes import (
    SIGNATURE,
    Note,
    NoteRefused,
    Signature,
    TreeHead,
    VerifierKey,
)
from ledger.models import Event
from ledger.models.events import Checkpoint
from ledger.proof.log import tree
from ledger.proof.log.tree import NotStored, StoredTree

# Events that one checkpoint takes at most; what is left goes under the next one, at once.
MOST_EVENTS = 50_000


class Contradiction(Exception):
    """The stored history contradicts a checkpoint that was signed before."""


@dataclass(frozen=True, slots=True)
class Inclusion:
    """The proof that the leaf ``index`` is in the tree of one size."""

    index: int
    leaf_hash: bytes
    path: list[bytes]


# --- making -------------------------------------------------------------------------------


def signed_note(checkpoint: Checkpoint) -> Note:
    """The checkpoint as a C2SP note, signed by the log."""
    return Note.parse(checkpoint.note)


def cosigned_note(checkpoint: Checkpoint) -> Note:
    """The signed note with every cosignature that witnesses have returned so far."""
    lines = [Signature.parse(row.line) for row in checkpoint.cosignatures.order_by("pk")]
    return signed_note(checkpoint).with_signatures(lines)


def make(published: Iterable[TreeHead] = ()) -> Checkpoint | None:
    """Put the events that are settled, and under no checkpoint yet, under a new one.

    ``None`` when nothing happened since the last one, no key is set, or another writer was in
    the way for longer than a moment (the next round will do).

    It goes on from the newest checkpoint that our key signed, whatever others wrote after it.

    Raises ``Contradiction`` when the stored tree is not the one signed before, or not one that
    the ``published`` heads are the beginning of: nothing is signed then.
    """
    if not settings.AUDIT_KEY:
        return None
    settled = last_settled_event()
    if settled is None:
        return None
    with atomic():
        if not _is_only_writer():
            return None
        before = latest()
        if before is None and Checkpoint.objects.exists():
            raise Contradiction(
                "None of the checkpoints is signed by a key of ours: name the key that was used "
                "before in ASSENT_AUDIT_PUBLIC_KEYS."
            )
        after, size = (before.upto_event, before.size) if before else (0, 0)
        heads = list(published)
        most = max([MOST_EVENTS, *(head.size - size for head in heads)])
        rows = Event.objects.filter(pk__gt=after, pk__lte=settled).order_by("pk")
        new = list(rows.values_list("pk", "hash")[:most])
        if not new:
            return None
        frontier = _frontier_of(before)
        tree.grow(frontier, (bytes.fromhex(sealed) for _, sealed in new))
        _refuse_contradiction(heads, frontier)
        return _signed(frontier, upto=new[-1][0], previous=size)


def _signed(frontier: merkle.Frontier, upto: int, previous: int) -> Checkpoint:
    key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(settings.AUDIT_KEY))
    head = TreeHead(settings.LOG_ORIGIN, frontier.size, frontier.root(), previous)
    return Checkpoint.objects.create(
        size=head.size,
        upto_event=upto,
        root=head.root.hex(),
        note=str(signed_notes.signed(str(head), head.origin, key)),
        public_key=key.public_key().public_bytes_raw().hex(),
    )


def _frontier_of(before: Checkpoint | None) -> merkle.Frontier:
    try:
        frontier = tree.frontier_at(before.size if before else 0)
    except NotStored as missing:
        raise Contradiction(f"{missing} It was under a checkpoint.") from missing
    if before and frontier.root().hex() != before.root:
        raise Contradiction(f"The stored tree of {before.size} events is not the one signed.")
    return frontier


def _refuse_contradiction(published: Iterable[TreeHead], frontier: merkle.Frontier) -> None:
    """Raises ``Contradiction`` unless the tree continues every published checkpoint."""
    stored = StoredTree()
    for head in published:
        if head.size > frontier.size or merkle.root(head.size, stored.read) != head.root:
            raise Contradiction(
                f"A checkpoint of {head.size} events was published, and these are not they."
            )


def _is_only_writer() -> bool:
    """Take the lock of who makes a checkpoint, which the application's role cannot take."""
    with connection.cursor() as cursor:
        try:
            with atomic():
                cursor.execute("LOCK TABLE ledger_tile IN SHARE ROW EXCLUSIVE MODE NOWAIT")
        except OperationalError:
            return False
    return True


# --- reading ------------------------------------------------------------------------------


def latest() -> Checkpoint | None:
    """The newest one that a key of ours signed."""
    return next(signed_by_us(Checkpoint.objects.order_by("-size")), None)


def is_behind(point: Checkpoint) -> bool:
    """True if there are older events that the checkpoint did not take."""
    return Event.objects.filter(pk__gt=point.upto_event, at__lt=point.at).exists()


def uncovered_since() -> datetime | None:
    """Time of the oldest event that is under no checkpoint of ours.

    Also of one that was given an id below the last checkpoint, after that was made.
    """
    point = latest()
    events = Event.objects.all()
    if point is not None:
        events = events.filter(Q(pk__gt=point.upto_event) | Q(at__gt=point.at))
    since: datetime | None = events.aggregate(since=Min("at"))["since"]
    return since


def covering(event_id: int) -> Checkpoint | None:
    """The first checkpoint that this event is under."""
    later = Checkpoint.objects.filter(upto_event__gte=event_id)
    return next(signed_by_us(later.order_by("size")), None)


def signed_by_us(points: QuerySet[Checkpoint]) -> Iterator[Checkpoint]:
    """Those of the checkpoints that say what their row says, signed by a key of ours.

    All of them in a process that knows none of our keys.
    """
    keys = [bytes.fromhex(key) for key in own_public_keys()]
    begin, count = 0, 1  # mostly the first one is ours, and all that is asked for
    while rows := list(points[begin : begin + count]):
        yield from (point for point in rows if not keys or _is_signed_by(keys, point))
        begin, count = begin + count, 1_000


def _is_signed_by(keys: list[bytes], point: Checkpoint) -> bool:
    try:
        note = signed_note(point)
        head = TreeHead.parse(note.text)
        signers = note.by([VerifierKey(head.origin, SIGNATURE, key) for key in keys])
    except (NoteRefused, ValueError):
        return False
    return bool(signers) and (head.size, head.root.hex()) == (point.size, point.root)


def key_of(point: Checkpoint) -> VerifierKey:
    """The verifier key in the checkpoint's own row; compare it with a trusted one."""
    origin = TreeHead.parse(signed_note(point).text).origin
    return VerifierKey(origin, SIGNATURE, bytes.fromhex(point.public_key))


def own_public_keys() -> frozenset[str]:
    """The public keys, in hexadecimal, that this installation trusts for its own log."""
    keys = set(settings.AUDIT_PUBLIC_KEYS)
    if settings.AUDIT_KEY:
        key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(settings.AUDIT_KEY))
        keys.add(key.public_key().public_bytes_raw().hex())
    return frozenset(keys)


def witness_keys() -> list[VerifierKey]:
    return [VerifierKey.parse(entry.rpartition(" ")[2]) for entry in settings.WITNESSES]


def place_of(event_id: int) -> int | None:
    """Index of this event's leaf; ``None`` while it is not under a checkpoint."""
    point = covering(event_id)
    if point is None:
        return None
    later = Event.objects.filter(pk__gt=event_id, pk__lte=point.upto_event).count()
    return point.size - 1 - later


def inclusions(event_ids: Iterable[int], point: Checkpoint) -> dict[int, Inclusion]:
    """The proof of each of these events that is under this checkpoint."""
    stored = StoredTree()
    proofs = {}
    for event_id in event_ids:
        if event_id <= point.upto_event and (index := place_of(event_id)) is not None:
            proofs[event_id] = _inclusion(index, point.size, stored)
    return proofs


def inclusion(index: int, size: int) -> Inclusion:
    """The proof that the tree of ``size`` events has the leaf ``index``; both must be stored."""
    return _inclusion(index, size, StoredTree())


def _inclusion(index: int, size: int, stored: StoredTree) -> Inclusion:
    return Inclusion(index, stored.read(0, index), merkle.inclusion(index, size, stored.read))


def root_at(size: int) -> bytes:
    """The root of the tree of the first ``size`` events. Raises ``NotStored``."""
    return merkle.root(size, StoredTree().read)


def consistency(old: int, new: int) -> list[bytes]:
    """That the tree of ``old`` events is the beginning of that of ``new`` ones.

    Raises ``ProofRefused`` for sizes that the tree does not have.
    """
    point = latest()
    if point is None or new > point.size:
        raise ProofRefused(f"The log covers {point.size if point else 0} events, not {new}.")
    return merkle.consistency(old, new, StoredTree().read)
