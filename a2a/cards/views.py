"""The agent cards, the key that signs them, and the published schemas."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.utils.http import http_date
from django.views.decorators.http import require_safe

from a2a.cards import cards, dialect_card, published, signatures
from a2a.wire import sdk
from ledger.agents import caller_with
from ledger.api.http import not_authenticated


@require_safe
def card(request: HttpRequest, skill: str = "") -> HttpResponse:
    agent_card, is_public = _card_for(request, skill)
    body = cards.for_every_version(agent_card, skill)
    return _cached(request, body, cards.etag_of(agent_card), is_public)


@require_safe
def v03_card(request: HttpRequest, skill: str = "") -> HttpResponse:
    agent_card, is_public = _card_for(request, skill)
    body = cards.v03_card(agent_card, skill)
    return _cached(request, body, cards.etag_of(agent_card), is_public)


def _card_for(request: HttpRequest, skill: str) -> tuple[sdk.pb.AgentCard, bool]:
    """The card, and whether it is public: at a skill's address a token shows that skill's terms."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    if not skill or scheme.lower() != "bearer":
        return cards.public_card(skill), True
    caller = caller_with(token.strip())
    agent_card = cards.extended_card(caller.tenant, skill) if caller else cards.public_card(skill)
    if agent_card is None:
        raise Http404
    return agent_card, False


@require_safe
def dialect(request: HttpRequest) -> HttpResponse:
    """The card of the plain dialect; a token adds the skills of its tenant."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    caller = caller_with(token.strip()) if scheme.lower() == "bearer" else None
    if scheme and caller is None:
        return not_authenticated()
    body = dialect_card.card(caller.tenant if caller else None)
    return _cached(request, body, f'"{body["version"]}"', is_public=caller is None)


@require_safe
def jwks(request: HttpRequest) -> HttpResponse:
    response = JsonResponse(signatures.public_jwks())
    response["Cache-Control"] = f"public, max-age={cards.CACHE_S}"
    return response


@require_safe
def schema(request: HttpRequest, name: str) -> HttpResponse:
    if name not in published.SCHEMAS:
        raise Http404
    response = JsonResponse(published.SCHEMAS[name], content_type="application/schema+json")
    response["Cache-Control"] = f"public, max-age={cards.CACHE_S}"
    return response


def _cached(request: HttpRequest, body: dict[str, Any], etag: str, is_public: bool) -> HttpResponse:
    known = request.headers.get("If-None-Match", "")
    is_known = etag in {item.strip().removeprefix("W/") for item in known.split(",")}
    response = HttpResponse(status=304) if is_known else JsonResponse(body)
    response["ETag"] = etag
    response["Last-Modified"] = http_date(cards.changed_at().timestamp())
    scope = "public" if is_public else "private"
    response["Cache-Control"] = f"{scope}, max-age={cards.CACHE_S}"
    response["Vary"] = "Authorization"
    response["Access-Control-Allow-Origin"] = "*"
    return response
