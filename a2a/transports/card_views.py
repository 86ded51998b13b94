"""The agent cards, the key that signs them, and the published schemas."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.utils.http import http_date
from django.views.decorators.http import require_safe

from a2a import cards, keys, published


@require_safe
def card(request: HttpRequest) -> HttpResponse:
    public = cards.public_card()
    return _cached(request, cards.as_json(public), cards.etag_of(public), cards.changed_at())


@require_safe
def v03_card(request: HttpRequest) -> HttpResponse:
    etag = cards.etag_of(cards.public_card())
    return _cached(request, cards.v03_card(), etag, cards.changed_at())


@require_safe
def jwks(request: HttpRequest) -> HttpResponse:
    response = JsonResponse(keys.public_jwks())
    response["Cache-Control"] = f"public, max-age={cards.CACHE_S}"
    return response


@require_safe
def schema(request: HttpRequest, name: str) -> HttpResponse:
    if name not in published.SCHEMAS:
        raise Http404
    response = JsonResponse(published.SCHEMAS[name], content_type="application/schema+json")
    response["Cache-Control"] = f"public, max-age={cards.CACHE_S}"
    return response


def _cached(
    request: HttpRequest, said: dict[str, Any], etag: str, changed_at: datetime
) -> HttpResponse:
    known = request.headers.get("If-None-Match", "")
    is_known = etag in {item.strip().removeprefix("W/") for item in known.split(",")}
    response = HttpResponse(status=304) if is_known else JsonResponse(said)
    response["ETag"] = etag
    response["Last-Modified"] = http_date(changed_at.timestamp())
    response["Cache-Control"] = f"public, max-age={cards.CACHE_S}"
    response["Access-Control-Allow-Origin"] = "*"
    return response
