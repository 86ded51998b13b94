"""Media types of files by their first bytes, and the size of a picture. Nothing is decoded.

The name and the type that a tool states are believed of nothing: a browser is told what the bytes
are, and a picture that would fill its memory is refused before anybody opens it.
"""

from __future__ import annotations

from collections.abc import Callable

PNG, JPEG, GIF, WEBP, PDF = "image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf"
EXTENSIONS = {PNG: "png", JPEG: "jpg", GIF: "gif", WEBP: "webp", PDF: "pdf"}
SIDE_MOST = 12_000  # pixels
PIXELS_MOST = 25_000_000  # 100 MB in a browser
# Markers of JPEG that have no length: restarts, start of image, TEM.
_BARE = frozenset({*range(0xD0, 0xD9), 0x01})
# Starts of frame: all of C0 to CF but tables and what is reserved.
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}


def media_type_of(content: bytes) -> str:
    """One of ``EXTENSIONS``, by the first bytes; empty for everything else, such as SVG or HTML."""
    if content.startswith(b"\x89PNG\r\n\x1a\n"):
        return PNG
    if content.startswith(b"\xff\xd8\xff"):
        return JPEG
    if content.startswith((b"GIF87a", b"GIF89a")):
        return GIF
    if content.startswith(b"RIFF") and content[8:12] == b"WEBP":
        return WEBP
    return PDF if content.startswith(b"%PDF-") else ""


def is_drawable(media_type: str, content: bytes) -> bool:
    """True for a picture whose size stands in its header and is not too large."""
    try:
        width, height = _SIZE_IN[media_type](content)
    except (IndexError, StopIteration):
        return False
    return 0 < width <= SIDE_MOST and 0 < height <= SIDE_MOST and width * height <= PIXELS_MOST


def _png(content: bytes) -> tuple[int, int]:
    if content[12:16] != b"IHDR":
        raise IndexError
    return _number(content, 16, 4), _number(content, 20, 4)


def _gif(content: bytes) -> tuple[int, int]:
    return _little(content, 6, 2), _little(content, 8, 2)


def _webp(content: bytes) -> tuple[int, int]:
    match content[12:16]:
        case b"VP8X":
            return _little(content, 24, 3) + 1, _little(content, 27, 3) + 1
        case b"VP8L" if content[20] == 0x2F:
            bits = _little(content, 21, 4)
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8 " if content[23:26] == b"\x9d\x01\x2a":
            return _little(content, 26, 2) & 0x3FFF, _little(content, 28, 2) & 0x3FFF
    raise IndexError


def _jpeg(content: bytes) -> tuple[int, int]:
    """From segment to segment, as far as the frame, which must come before the picture."""
    at = 2
    while True:
        if content[at] != 0xFF:
            raise IndexError
        marker = content[at + 1]
        if marker == 0xFF:
            at += 1
        elif marker in _BARE:
            at += 2
        elif marker in _FRAMES:
            return _number(content, at + 7, 2), _number(content, at + 5, 2)
        elif marker in {0xD9, 0xDA}:
            raise IndexError
        else:
            at += 2 + max(2, _number(content, at + 2, 2))


_SIZE_IN: dict[str, Callable[[bytes], tuple[int, int]]] = {
    PNG: _png,
    JPEG: _jpeg,
    GIF: _gif,
    WEBP: _webp,
}


def _number(content: bytes, at: int, length: int) -> int:
    return int.from_bytes(_bytes_at(content, at, length), "big")


def _little(content: bytes, at: int, length: int) -> int:
    return int.from_bytes(_bytes_at(content, at, length), "little")


def _bytes_at(content: bytes, at: int, length: int) -> bytes:
    if len(content) < at + length:
        raise IndexError
    return content[at : at + length]
