"""QR codes as pictures in a page."""

from __future__ import annotations

import base64
from io import BytesIO

import qrcode
from qrcode.image.svg import SvgPathImage


def data_url(text: str) -> str:
    file = BytesIO()
    qrcode.make(text, image_factory=SvgPathImage).save(file)
    return f"data:image/svg+xml;base64,{base64.b64encode(file.getvalue()).decode()}"
