"""Proving the checkpoints: that they are signed, and that the events under them are the same.

What an auditor does by hand is in ``docs/audit.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.db.models.functions import Now

from ledger.foundation.crypto import merkle, signed_notes
from ledger.foundation.crypto.merkle import TILE_HEIGHT, WIDTH, Frontier
from ledger.foundation.crypto.signed_notes import SIGNATURE, NoteRefused, TreeHead, VerifierKey
from ledger.models import Event
from ledger.models.events import Checkpoint, Tile
from ledger.proof.log import checkpoints, publishing, tree
from ledger.proof.log.tree import NotStored, StoredTree

CHUNK = 5_000  # events between two reports of progress
TILES_AT_ONCE = 200


class Broken(Exception):
    """The first thing seen that cannot be true of an untouched ledger."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """Reach of the checkpoints. Keep it, and the next proof begins where this one ended."""

    checkpoints: int = 0
    size: int = 0  # events that are under a checkpoint
    root: str = merkle.EMPTY_ROOT.hex()
    upto_event: int = 0  # the last of them
    uncovered: int = 0  # events that are newer
    public_keys: frozenset[str] = frozenset()


NOTHING = Coverage()


def verify(
    trusted_keys: frozenset[str] | None = None,
    *,
    since: Coverage = NOTHING,
    against: Sequence[str] = (),
    patience: timedelta | None = None,
    progress: Callable[[int], None] = lambda events: None,
) -> Coverage:
    """Prove every checkpoint, or those newer than ``since``, against the events under it.

    Raises ``Broken``, naming the first thing that is wrong. Reads only, through the caller's
    database transaction, so a snapshot proves one instant.

    ``trusted_keys``: public keys in hexadecimal; a checkpoint that none of them signed is broken.
    Without them each is taken by the key in its own row, which proves little.
    ``against``: contents of files that were written outside; each checkpoint in them must still
    be here, word for word.
    ``patience``: how old an event may be that is under no checkpoint.
    """
    proof = _Proof(trusted_keys, since, progress)
    for point in Checkpoint.objects.filter(size__gt=since.size).order_by("size").iterator():
        proof.add(point)
    covered = proof.finish()
    _compare_outside(against, covered, trusted_keys)
    if patience is not None:
        _refuse_old_tail(covered, patience)
    return covered


def published_size() -> int | None:
    """Number of events the newest published checkpoint covers; ``None`` if no file of them is kept.

    Raises ``NoteRefused`` and ``OSError`` when the file cannot be read.
    """
    return max((head.size for head in publishing.published()), default=None)


class _Proof:
    """Walks events and checkpoints side by side, and makes the tree again on the way."""

    def __init__(
        self,
        trusted_keys: frozenset[str] | None,
        since: Coverage,
        progress: Callable[[int], None],
    ) -> None:
        self._trusted = trusted_keys
        self._progress = progress
        self._frontier = _frontier_since(since)
        self._events = _hashes_after(since)
        self._upto = since.upto_event
        self._is_chained = False
        self._count = since.checkpoints
        self._keys = set(since.public_keys)
        self._filled: list[tuple[int, int, bytes]] = []
        self._witnesses = checkpoints.witness_keys()

    def add(self, point: Checkpoint) -> None:
        self._check_place(point, self._check_note(point))
        while self._frontier.size < point.size:
            self._take_event(point)
        if self._upto != point.upto_event:
            raise Broken(
                f"{point} ends at event {self._upto}, but it was made when that was "
                f"event {point.upto_event}."
            )
        if self._frontier.root().hex() != point.root:
            raise Broken(f"the events under the {point} are not those that it signed.")
        self._count += 1

    def finish(self) -> Coverage:
        self._compare_tiles()
        self._compare_edge()
        uncovered = Event.objects.filter(pk__gt=self._upto).count()
        self._progress(self._frontier.size)
        return Coverage(
            checkpoints=self._count,
            size=self._frontier.size,
            root=self._frontier.root().hex(),
            upto_event=self._upto,
            uncovered=uncovered,
            public_keys=frozenset(self._keys),
        )

    def _take_event(self, point: Checkpoint) -> None:
        following = next(self._events, None)
        if following is None:
            raise Broken(
                f"the {point} saw {point.size} events, and now there are {self._frontier.size}."
            )
        self._upto, sealed = following
        try:
            leaf = bytes.fromhex(sealed)
        except ValueError:
            raise Broken(f"event {self._upto} was changed: its hash is none.") from None
        self._filled += self._frontier.append(leaf)
        if len(self._filled) >= TILES_AT_ONCE:
            self._compare_tiles()
        if self._frontier.size % CHUNK == 0:
            self._progress(self._frontier.size)

    def _check_place(self, point: Checkpoint, head: TreeHead) -> None:
        """Those of earlier versions named no predecessor; after one that does, all do."""
        before = self._frontier.size
        allowed = {before} if self._is_chained else {None, before}
        if head.previous not in allowed:
            raise Broken(
                f"the {point} does not follow that of {before} events: one between was deleted, "
                "or one was put there."
            )
        self._is_chained = head.previous is not None

    def _check_note(self, point: Checkpoint) -> TreeHead:
        try:
            note = checkpoints.signed_note(point)
            head = TreeHead.parse(note.text)
            if (head.size, head.root.hex()) != (point.size, point.root):
                raise Broken(f"the {point} was changed: its note says something else.")
            trusted = {point.public_key} if self._trusted is None else self._trusted
            keys = [VerifierKey(head.origin, SIGNATURE, bytes.fromhex(key)) for key in trusted]
            signers = note.by(keys)
            if not signers:
                raise Broken(f"the {point} is signed by no key that is trusted.")
            checkpoints.cosigned_note(point).by(self._witnesses)
        except (NoteRefused, ValueError) as refusal:
            raise Broken(f"the {point} was changed: {refusal}") from refusal
        self._keys |= {key.public.hex() for key in signers}
        return head

    def _compare_tiles(self) -> None:
        """The full tiles that were made again, with those that are stored."""
        for level in {filled[0] for filled in self._filled}:
            again = {index: hashes for at, index, hashes in self._filled if at == level}
            rows = Tile.objects.filter(level=level, index__in=list(again))
            stored = {row.index: bytes(row.hashes) for row in rows}
            for index, hashes in again.items():
                if stored.get(index) != hashes:
                    raise Broken(f"tile {level}/{index} of the log is not that of its events.")
        self._filled = []

    def _compare_edge(self) -> None:
        """The open tiles, and that the stored tree ends with the last checkpoint."""
        for level, index, hashes in self._frontier.open_tiles():
            stored_hashes = tree.hashes_of(level, index)
            if not stored_hashes.startswith(hashes):
                raise Broken(f"tile {level}/{index} of the log is not that of its events.")
            if stored_hashes != hashes:
                raise Broken(
                    f"tile {level}/{index} goes on after the last checkpoint (of "
                    f"{self._frontier.size} events): a newer checkpoint was deleted."
                )
        expected = _tiles_of(self._frontier.size)
        stored = Tile.objects.count()
        if stored != expected:
            raise Broken(
                f"the log has {stored} tiles, but its last checkpoint (of {self._frontier.size} "
                f"events) needs {expected}: a newer checkpoint was deleted, or tiles were."
            )


def _hashes_after(since: Coverage) -> Iterator[tuple[int, str]]:
    """In the order of ids; from the very first one on, where nothing was verified before."""
    rows = Event.objects.order_by("pk")
    if since.size:
        rows = rows.filter(pk__gt=since.upto_event)
    return rows.values_list("pk", "hash").iterator(chunk_size=CHUNK)


def _frontier_since(since: Coverage) -> Frontier:
    try:
        frontier = tree.frontier_at(since.size)
    except NotStored as missing:
        raise Broken(f"the stored tree lost what was verified before: {missing}") from missing
    if frontier.root().hex() != since.root:
        raise Broken(f"the stored tree of {since.size} events is not the one verified before.")
    count = Event.objects.filter(pk__lte=since.upto_event).count()
    if since.size and count != since.size:
        raise Broken(f"{since.size} events were verified before, of which there are now {count}.")
    return frontier


def _tiles_of(size: int) -> int:
    """Number of tiles a tree of this size has."""
    count = 0
    while size:
        count += -(-size // WIDTH)
        size >>= TILE_HEIGHT
    return count


def _compare_outside(
    against: Sequence[str], covered: Coverage, trusted_keys: frozenset[str] | None
) -> None:
    for text in against:
        try:
            outside = [(note, TreeHead.parse(note.text)) for note in publishing.notes_of(text)]
        except NoteRefused as refusal:
            raise Broken(f"the copy outside cannot be read: {refusal}") from refusal
        for note, head in outside:
            _compare_with(note, head, covered, trusted_keys)


def _compare_with(
    note: signed_notes.Note, head: TreeHead, covered: Coverage, trusted_keys: frozenset[str] | None
) -> None:
    if trusted_keys is not None:
        keys = [VerifierKey(head.origin, SIGNATURE, bytes.fromhex(key)) for key in trusted_keys]
        try:
            signers = note.by(keys)
        except NoteRefused as refusal:
            raise Broken(f"a checkpoint outside, of {head.size} events: {refusal}") from refusal
        if not signers:
            raise Broken(
                f"a checkpoint outside, of {head.size} events, is signed by no trusted key."
            )
    point = Checkpoint.objects.filter(size=head.size).first()
    if point is None:
        raise Broken(f"the checkpoint of {head.size} events, published outside, is not here.")
    if checkpoints.signed_note(point).text != note.text:
        raise Broken(
            f"the checkpoint of {head.size} events is not the one that was published outside."
        )
    stored = StoredTree()
    try:
        path = merkle.consistency(head.size, covered.size, stored.read)
    except NotStored as missing:
        raise Broken(str(missing)) from missing
    if not merkle.is_consistent(
        head.size, covered.size, head.root, bytes.fromhex(covered.root), path
    ):
        raise Broken(f"the log is not the one of which {head.size} events were published outside.")


def _refuse_old_tail(covered: Coverage, patience: timedelta) -> None:
    old = Event.objects.filter(pk__gt=covered.upto_event, at__lt=Now() - patience)
    first = old.order_by("pk").first()
    if first and not covered.checkpoints:
        raise Broken(
            f"no checkpoint is there, so nothing is proved of event {first.pk} and those after it. "
            "The sweeper makes one every minute, unless ASSENT_CHECKPOINT_EVERY_S says otherwise."
        )
    if first:
        raise Broken(
            f"{covered.uncovered} events, the first at {first.at:%Y-%m-%d %H:%M} UTC "
            f"(event {first.pk}), are under no checkpoint: the newest checkpoints are missing, "
            "or none was made."
        )
