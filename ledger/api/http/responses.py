"""Answers of the REST interfaces, and what stands in their headers and links."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.http import HttpResponse


def json_response(
    body: Any,
    status: int = 200,
    *,
    content_type: str = "application/json",
    default: Callable[[Any], Any] | None = None,
) -> HttpResponse:
    """The body as JSON; ``default`` renders what is not JSON by itself, else that is an error."""
    text = json.dumps(body, default=default)
    return HttpResponse(text, status=status, content_type=content_type)


def address_of(path: str) -> str:
    """The whole public URL of a path of ours."""
    return f"{settings.PUBLIC_URL}{path}"
