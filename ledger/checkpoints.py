"""Signed checkpoints: one Merkle root over what was sealed, chained and signed (Ed25519)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
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

from ledger import merkle
from ledger.models import Checkpoint, Event


class Broken(Exception):
    """The first thing seen that cannot be true of an untouched ledger."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """What the checkpoints cover, once they are verified."""

    checkpoints: int
    upto_event: int  # the last event that is under a checkpoint; 0 without one
    public_keys: frozenset[str]


def make() -> Checkpoint | None:
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
    root = merkle.root_of([_leaf(*head) for head in heads]).hex()
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


def verify(trusted_keys: frozenset[str] | None = None) -> Coverage:
    """Prove every checkpoint against the events under it. Reads only; opens no transaction.

    Raises ``Broken``, naming the first checkpoint that is wrong. With ``trusted_keys`` (public
    keys in hexadecimal), one that another key signed is broken too.
    """
    after, previous, count = 0, "", 0
    keys: set[str] = set()
    for point in Checkpoint.objects.order_by("pk").iterator():
        _verify_checkpoint(point, after, previous)
        if trusted_keys is not None and point.public_key not in trusted_keys:
            raise Broken(f"checkpoint {point.pk} is signed by a key that is not trusted.")
        after, previous, count = point.upto_event, point.hash, count + 1
        keys.add(point.public_key)
    return Coverage(count, after, frozenset(keys))


def _verify_checkpoint(point: Checkpoint, after: int, previous: str) -> None:
    if (point.after_event, point.previous_hash) != (after, previous):
        raise Broken(f"checkpoint {point.pk} does not follow the checkpoint before it.")
    heads = _heads(point.after_event, point.upto_event)
    if len(heads) != point.heads:
        raise Broken(f"checkpoint {point.pk} saw {point.heads} chains grow, now {len(heads)}.")
    if merkle.root_of([_leaf(*head) for head in heads]).hex() != point.root:
        raise Broken(f"the events under checkpoint {point.pk} are not those that it signed.")
    content = _checkpoint_hash(after, point.upto_event, point.heads, point.root, previous)
    if content != point.hash:
        raise Broken(f"checkpoint {point.pk} was changed.")
    key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(point.public_key))
    try:
        key.verify(bytes.fromhex(point.signature), bytes.fromhex(content))
    except InvalidSignature:
        raise Broken(f"the signature of checkpoint {point.pk} is not its key's.") from None
