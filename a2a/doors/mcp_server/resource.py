"""The resource that tells a client how ``/mcp`` is protected (RFC 9728)."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from ledger.api.http import json_response
from ledger.models import Scope

METADATA = "/.well-known/oauth-protected-resource/mcp"
# What a token may be for, alone: this interface.
RESOURCE = "mcp"
# What a client asks for when it signs in: all that its calls here may need.
SCOPES = (Scope.PROPOSE.value, Scope.SUBMIT.value)


@require_safe
def metadata(request: HttpRequest) -> HttpResponse:
    """Without an authorization server, operators issue the tokens."""
    body = {
        "resource": f"{settings.LIVE_URL}/mcp",
        "resource_name": "Assent",
        "bearer_methods_supported": ["header"],
        "scopes_supported": list(SCOPES),
    }
    if settings.AUTHORIZATION_SERVER:
        body["authorization_servers"] = [settings.AUTHORIZATION_SERVER]
    response = json_response(body)
    response["Access-Control-Allow-Origin"] = "*"
    return response


def challenge(error: str = "") -> str:
    """The header ``WWW-Authenticate`` (RFC 6750): where to learn how to sign in, and for what."""
    members = {
        **({"error": error} if error else {}),
        "scope": " ".join(SCOPES),
        "resource_metadata": f"{settings.LIVE_URL}{METADATA}",
    }
    return "Bearer " + ", ".join(f'{name}="{value}"' for name, value in members.items())
