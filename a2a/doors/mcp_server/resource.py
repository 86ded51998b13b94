"""The resource that tells a client how ``/mcp`` is protected (RFC 9728)."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from ledger.api.http import json_response
from ledger.models import Scope

METADATA = "/.well-known/oauth-protected-resource/mcp"


@require_safe
def metadata(request: HttpRequest) -> HttpResponse:
    """Operators issue the tokens: there is no authorization server to name."""
    body = {
        "resource": f"{settings.LIVE_URL}/mcp",
        "resource_name": "Assent",
        "bearer_methods_supported": ["header"],
        "scopes_supported": [Scope.PROPOSE.value, Scope.READ_ALL.value, Scope.SUBMIT.value],
    }
    return json_response(body)
