"""Merkle trees as RFC 6962 and RFC 9162 have them: a leaf and a node never hash alike."""

from __future__ import annotations

import hashlib


def root_of(leaves: list[bytes]) -> bytes:
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
