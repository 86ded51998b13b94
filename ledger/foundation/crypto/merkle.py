"""Merkle trees as RFC 6962 and RFC 9162 have them, kept as tiles (C2SP ``tlog-tiles``).

Pure arithmetic: hashes go in and come out, nothing is read from the database here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence

TILE_HEIGHT = 8
WIDTH = 1 << TILE_HEIGHT  # hashes in a full tile
EMPTY_ROOT = hashlib.sha256().digest()

# The hash of the perfect subtree of ``2 ** height`` leaves with this index among its like.
Reader = Callable[[int, int], bytes]


class ProofRefused(Exception):
    """A proof that proves nothing: of the wrong length, or for a place outside of the tree."""


def leaf_hash(leaf: bytes) -> bytes:
    return hashlib.sha256(b"\x00" + leaf).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()


def fold(hashes: Sequence[bytes]) -> bytes:
    """The root over the hashes of perfect subtrees of one size; their number a power of two."""
    while len(hashes) > 1:
        hashes = [node_hash(hashes[i], hashes[i + 1]) for i in range(0, len(hashes), 2)]
    return hashes[0]


class Frontier:
    """The right edge of a growing tree: the open tile of every level.

    Appending a leaf costs two hashes on average, and the memory is that of the open tiles.
    """

    def __init__(self, size: int = 0, open_tiles: Sequence[Sequence[bytes]] = ()) -> None:
        self.size = size
        self._open = [list(tile) for tile in open_tiles]

    def append(self, leaf: bytes) -> list[tuple[int, int, bytes]]:
        """One more leaf. The tiles that it filled, as (level, index, hashes)."""
        filled: list[tuple[int, int, bytes]] = []
        self.size += 1
        level, entry = 0, leaf_hash(leaf)
        while True:
            if level == len(self._open):
                self._open.append([])
            tile = self._open[level]
            tile.append(entry)
            if len(tile) < WIDTH:
                return filled
            index = (self.size >> (TILE_HEIGHT * (level + 1))) - 1
            filled.append((level, index, b"".join(tile)))
            entry = fold(tile)
            self._open[level] = []
            level += 1

    def open_tiles(self) -> Iterator[tuple[int, int, bytes]]:
        """The tiles that are not full, as (level, index, hashes); empty ones are not there."""
        for level, tile in enumerate(self._open):
            if tile:
                yield level, self.size >> (TILE_HEIGHT * (level + 1)), b"".join(tile)

    def root(self) -> bytes:
        """The root of the tree as it is now."""
        root: bytes | None = None
        for tile in self._open:  # from the smallest subtrees, on the right, to the largest
            end = len(tile)
            while end:
                step = end & -end
                part = fold(tile[end - step : end])
                root = part if root is None else node_hash(part, root)
                end -= step
        return EMPTY_ROOT if root is None else root


def open_widths(size: int) -> list[tuple[int, int, int]]:
    """The open tiles of a tree of this size, as (level, index, width)."""
    widths = []
    level = 0
    while size:
        if size % WIDTH:
            widths.append((level, size >> TILE_HEIGHT, size % WIDTH))
        size >>= TILE_HEIGHT
        level += 1
    return widths


def root_of(leaves: Sequence[bytes]) -> bytes:
    """The root over these leaves: RFC 6962, section 2.1."""
    frontier = Frontier()
    for leaf in leaves:
        frontier.append(leaf)
    return frontier.root()


def root(size: int, read: Reader) -> bytes:
    """The root of the first ``size`` leaves."""
    return _subtree(0, size, read) if size else EMPTY_ROOT


def inclusion(index: int, size: int, read: Reader) -> list[bytes]:
    """The path from leaf ``index`` to the root of the first ``size`` leaves: RFC 6962, 2.1.1."""
    if not 0 <= index < size:
        raise ProofRefused(f"A tree of {size} leaves has no leaf {index}.")
    path: list[bytes] = []
    begin, end = 0, size
    while end - begin > 1:
        middle = begin + _split(end - begin)
        if index < middle:
            path.append(_subtree(middle, end, read))
            end = middle
        else:
            path.append(_subtree(begin, middle, read))
            begin = middle
    return path[::-1]


def consistency(old: int, new: int, read: Reader) -> list[bytes]:
    """That the first ``old`` leaves are the beginning of the first ``new``: RFC 6962, 2.1.2."""
    if not 0 <= old <= new:
        raise ProofRefused(f"A tree does not shrink from {old} leaves to {new}.")
    if old in {0, new}:
        return []
    path: list[bytes] = []
    begin, end, is_whole = 0, new, True
    while end != old:
        middle = begin + _split(end - begin)
        if old <= middle:
            path.append(_subtree(middle, end, read))
            end = middle
        else:
            path.append(_subtree(begin, middle, read))
            begin, is_whole = middle, False
    if not is_whole:
        path.append(_subtree(begin, end, read))
    return path[::-1]


def implied_root(leaf: bytes, index: int, size: int, path: Sequence[bytes]) -> bytes:
    """The root that a leaf hash and its inclusion path lead to: RFC 9162, 2.1.3.2."""
    if not 0 <= index < size:
        raise ProofRefused(f"A tree of {size} leaves has no leaf {index}.")
    node, last, implied = index, size - 1, leaf
    for sibling in path:
        if last == 0:
            raise ProofRefused("The path is longer than the tree is high.")
        if node % 2 or node == last:
            implied = node_hash(sibling, implied)
            while node % 2 == 0 and node:
                node, last = node >> 1, last >> 1
        else:
            implied = node_hash(implied, sibling)
        node, last = node >> 1, last >> 1
    if last:
        raise ProofRefused("The path is shorter than the tree is high.")
    return implied


def is_consistent(
    old: int, new: int, old_root: bytes, new_root: bytes, path: Sequence[bytes]
) -> bool:
    """True if the path proves that one tree is the beginning of the other: RFC 9162, 2.1.4.2."""
    if not 0 <= old <= new:
        return False
    if old in {0, new}:
        return not path and old_root == (EMPTY_ROOT if old == 0 else new_root)
    rest = list(path)
    if old & (old - 1) == 0:
        rest.insert(0, old_root)
    if not rest:
        return False
    node, last = old - 1, new - 1
    while node % 2:
        node, last = node >> 1, last >> 1
    of_old = of_new = rest[0]
    for sibling in rest[1:]:
        if last == 0:
            return False
        if node % 2 or node == last:
            of_old, of_new = node_hash(sibling, of_old), node_hash(sibling, of_new)
            while node % 2 == 0 and node:
                node, last = node >> 1, last >> 1
        else:
            of_new = node_hash(of_new, sibling)
        node, last = node >> 1, last >> 1
    return last == 0 and of_old == old_root and of_new == new_root


def _split(size: int) -> int:
    """The largest power of two below ``size``."""
    return 1 << ((size - 1).bit_length() - 1)


def _subtree(begin: int, end: int, read: Reader) -> bytes:
    size = end - begin
    if size & (size - 1) == 0:
        height = size.bit_length() - 1
        return read(height, begin >> height)
    middle = begin + _split(size)
    return node_hash(_subtree(begin, middle, read), _subtree(middle, end, read))
