"""The log as everybody may read it: C2SP tlog-tiles. Hashes only; the events are not public."""

from __future__ import annotations

import hashlib
import re

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from ledger.foundation.crypto.merkle import WIDTH
from ledger.proof.log import checkpoints, tree

FOREVER = "public, max-age=31536000, immutable"
TEXT = "text/plain; charset=utf-8"
_TILE = re.compile(
    r"(?P<level>\d{1,2})/(?P<index>(?:x\d{3}/){0,5}\d{3})(?:\.p/(?P<width>\d{1,3}))?"
)


@require_safe
def checkpoint(request: HttpRequest) -> HttpResponse:
    """The newest checkpoint with its cosignatures."""
    point = checkpoints.latest()
    if point is None:
        return _nothing("There is no checkpoint yet.")
    text = str(checkpoints.cosigned_note(point))
    response = HttpResponse(text, content_type=TEXT)
    response["Cache-Control"] = "public, max-age=5"
    response["ETag"] = f'"{hashlib.sha256(text.encode()).hexdigest()[:32]}"'
    return _open_to_all(response)


@require_safe
def key(request: HttpRequest) -> HttpResponse:
    """The verifier key of the newest checkpoint; compare it with one from elsewhere."""
    point = checkpoints.latest()
    if point is None:
        return _nothing("There is no checkpoint yet, and so no key that signed one.")
    response = HttpResponse(f"{checkpoints.key_of(point)}\n", content_type=TEXT)
    response["Cache-Control"] = "public, max-age=300"
    return _open_to_all(response)


@require_safe
def tile(request: HttpRequest, place: str) -> HttpResponse:
    """One tile of hashes, whole or in part."""
    match = _TILE.fullmatch(place)
    if match is None:
        return _nothing("There is no such tile.")
    level, index = int(match["level"]), int(match["index"].replace("x", "").replace("/", ""))
    width = int(match["width"]) if match["width"] else WIDTH
    if place != path_of(level, index, width) or level > 63 or index >= 1 << 55:
        return _nothing("A tile has one address only.")
    hashes = tree.hashes_of(level, index)[: width * tree.HASH] if 0 < width <= WIDTH else b""
    if len(hashes) != width * tree.HASH or not hashes:
        return _nothing("The log does not reach that far.")
    response = HttpResponse(hashes, content_type="application/octet-stream")
    response["Cache-Control"] = FOREVER
    return _open_to_all(response)


def path_of(level: int, index: int, width: int = WIDTH) -> str:
    """The one address of a tile, below ``/log/tile/``."""
    parts = [f"{index % 1000:03d}"]
    while index >= 1000:
        index //= 1000
        parts.insert(0, f"x{index % 1000:03d}")
    return f"{level}/{'/'.join(parts)}" + ("" if width == WIDTH else f".p/{width}")


def _nothing(why: str) -> HttpResponse:
    response = HttpResponse(f"{why}\n", status=404, content_type=TEXT)
    response["Cache-Control"] = "public, max-age=5"
    return _open_to_all(response)


def _open_to_all(response: HttpResponse) -> HttpResponse:
    response["Access-Control-Allow-Origin"] = "*"
    response["X-Content-Type-Options"] = "nosniff"
    return response
