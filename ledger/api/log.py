"""Public proofs: that an event is in the log, and that the log only grew. No token is needed."""

from __future__ import annotations

import base64
from typing import Any

from django.http import HttpRequest
from ninja import Field, Query, Router, Schema

from ledger.api.http import refusals
from ledger.errors import NotFound
from ledger.foundation.crypto.merkle import ProofRefused
from ledger.models.events import Checkpoint
from ledger.proof.log import checkpoints

LARGEST = 2**62
router = Router(tags=["log"])


class InclusionOut(Schema):
    """Hashes are base64, as C2SP has them."""

    event: int
    leaf_index: int
    leaf_hash: str
    size: int
    root: str
    path: list[str]
    checkpoint: str | None = Field(description="The signed note of this size, if there is one.")


class ConsistencyOut(Schema):
    """Hashes are base64, as C2SP has them."""

    old: int
    old_root: str
    new: int
    new_root: str
    path: list[str]


@router.get(
    "/inclusion",
    response={200: InclusionOut, **refusals(404, 422, is_open=True)},
    operation_id="proveInclusion",
)
def inclusion(
    request: HttpRequest,
    event: int = Query(ge=1, le=LARGEST, description="The id of a sealed event."),
    size: int | None = Query(
        None, ge=1, le=LARGEST, description="Of the tree; the newest checkpoint's when absent."
    ),
) -> dict[str, Any]:
    """That an event is a leaf of the log: RFC 6962, section 2.1.1.

    The leaf is the 32 bytes of the event's `hash`; its record has the rest of the event.
    """
    newest, index = checkpoints.latest(), checkpoints.place_of(event)
    if newest is None or index is None:
        raise NotFound()
    wanted = newest.size if size is None else size
    if not index < wanted <= newest.size:
        raise NotFound()
    proof = checkpoints.inclusion(index, wanted)
    return {
        "event": event,
        "leaf_index": index,
        "leaf_hash": _text(proof.leaf_hash),
        "size": wanted,
        "root": _text(checkpoints.root_at(wanted)),
        "path": [_text(node) for node in proof.path],
        "checkpoint": _note_of(wanted),
    }


@router.get(
    "/consistency",
    response={200: ConsistencyOut, **refusals(404, 422, is_open=True)},
    operation_id="proveConsistency",
)
def consistency(
    request: HttpRequest,
    old: int = Query(ge=1, le=LARGEST, description="The size of the smaller tree."),
    new: int = Query(ge=1, le=LARGEST, description="The size of the larger tree."),
) -> dict[str, Any]:
    """That the log of `new` events begins with the one of `old` events: RFC 6962, 2.1.2."""
    try:
        path = checkpoints.consistency(old, new)
    except ProofRefused:
        raise NotFound() from None
    return {
        "old": old,
        "old_root": _text(checkpoints.root_at(old)),
        "new": new,
        "new_root": _text(checkpoints.root_at(new)),
        "path": [_text(node) for node in path],
    }


def _note_of(size: int) -> str | None:
    point = Checkpoint.objects.filter(size=size).first()
    return None if point is None else str(checkpoints.cosigned_note(point))


def _text(node: bytes) -> str:
    return base64.b64encode(node).decode()
