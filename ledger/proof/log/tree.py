"""The Merkle tree over the sealed events, as it is stored: tiles in a table.

Leaf i is the 32 bytes of the hash of the i-th event in the order of ids. The order is fixed when
a checkpoint is made, so the stored tree always ends at one.
"""

from __future__ import annotations

from collections.abc import Iterable

from ledger.foundation.crypto import merkle
from ledger.foundation.crypto.merkle import TILE_HEIGHT, WIDTH, Frontier
from ledger.models.events import Tile

HASH = 32  # bytes


class NotStored(Exception):
    """The stored tree does not reach that far."""


class StoredTree:
    """Reads hashes of subtrees; each tile is read once. A proof needs a few of them."""

    def __init__(self) -> None:
        self._tiles: dict[tuple[int, int], bytes] = {}

    def read(self, height: int, index: int) -> bytes:
        """A ``merkle.Reader``. Raises ``NotStored``."""
        level, within = divmod(height, TILE_HEIGHT)
        first = index << within
        tile = self._tile(level, first // WIDTH)
        begin = (first % WIDTH) * HASH
        part = tile[begin : begin + (HASH << within)]
        if len(part) != HASH << within:
            raise NotStored(f"The stored tree has no subtree {index} of height {height}.")
        return merkle.fold([part[i : i + HASH] for i in range(0, len(part), HASH)])

    def _tile(self, level: int, index: int) -> bytes:
        place = (level, index)
        if place not in self._tiles:
            self._tiles[place] = hashes_of(level, index)
        return self._tiles[place]


def hashes_of(level: int, index: int) -> bytes:
    """Hashes that are stored of one tile; empty when nothing is."""
    row = Tile.objects.filter(level=level, index=index).values_list("hashes", flat=True).first()
    return b"" if row is None else bytes(row)


def frontier_at(size: int) -> Frontier:
    """The right edge of the stored tree when it had this size. Raises ``NotStored``."""
    widths = merkle.open_widths(size)
    open_tiles: list[list[bytes]] = [[] for _ in range(max((w[0] for w in widths), default=-1) + 1)]
    for level, index, width in widths:
        raw = hashes_of(level, index)[: width * HASH]
        if len(raw) != width * HASH:
            raise NotStored(f"Tile {level}/{index} has fewer than {width} hashes.")
        open_tiles[level] = [raw[i : i + HASH] for i in range(0, len(raw), HASH)]
    return Frontier(size, open_tiles)


def grow(frontier: Frontier, leaves: Iterable[bytes]) -> None:
    """Append leaves and store what changed. Inside the database transaction of a checkpoint."""
    changed: dict[tuple[int, int], bytes] = {}
    for leaf in leaves:
        for level, index, hashes in frontier.append(leaf):
            changed[level, index] = hashes
    for level, index, hashes in frontier.open_tiles():
        changed[level, index] = hashes
    Tile.objects.bulk_create(
        [Tile(level=at[0], index=at[1], hashes=hashes) for at, hashes in changed.items()],
        update_conflicts=True,
        unique_fields=["level", "index"],
        update_fields=["hashes"],
        batch_size=500,
    )
