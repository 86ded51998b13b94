"""Files as tools might return them: good ones, and a hostile set."""

from __future__ import annotations

import base64
import struct
import zlib

SVG = b'<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>'
HTML = b"<!doctype html><script>alert(1)</script>"
PDF = b"%PDF-1.4\n1 0 obj<</Type/Catalog>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n"
GIF = base64.b64decode("R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7")
JPEG = (
    b"\xff\xd8\xff\xe0\x00\x10JFIF\x00\x01\x01\x00\x00\x01\x00\x01\x00\x00"
    b"\xff\xc0\x00\x0b\x08\x00\x08\x00\x10\x01\x01\x11\x00\xff\xd9"
)
WEBP = base64.b64decode("UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA==")


def png(width: int = 4, height: int = 3, *, pixels: bool = True) -> bytes:
    """A PNG of one colour; without ``pixels`` its header alone promises them."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        checked = kind + data
        return struct.pack(">I", len(data)) + checked + struct.pack(">I", zlib.crc32(checked))

    rows = (b"\x00" + b"\x44\x48\xb8" * width) * height if pixels else b""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


def of_size(kind: str, width: int, height: int) -> bytes:
    """A header of each kind of picture with this size."""
    match kind:
        case "png":
            return png(width, height, pixels=False)
        case "gif":
            return b"GIF89a" + struct.pack("<HH", width, height) + GIF[10:]
        case "jpeg":
            return JPEG.replace(
                b"\x00\x08\x00\x10\x01", struct.pack(">HH", height, width) + b"\x01"
            )
        case _:
            size = struct.pack("<I", width - 1)[:3] + struct.pack("<I", height - 1)[:3]
            return b"RIFF\x1e\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00\x00\x00\x00\x00" + size
