"""Clients that nobody here registered: by their document (CIMD), or by registering themselves."""

from __future__ import annotations

from typing import Any

import httpx
from django.http import HttpRequest
from oauth2_provider import cimd
from oauth2_provider.settings import oauth2_settings

from approvals.oauth.models import Client
from approvals.web.sign_in.authentication import address_of
from ledger import limits
from ledger.api.http import parse_json
from ledger.errors import LimitReached
from ledger.foundation import http_out

TIMEOUT_S = 5.0


class DocumentFetcher:
    """Fetches the document behind a ``client_id``, as the toolkit asks for it."""

    def fetch(self, client_id: str) -> tuple[dict[str, Any], int]:
        """The document, and for how many seconds it counts. Raises ``CIMDError``."""
        cimd._validate_client_id_url(client_id)
        request = httpx.Request("GET", client_id, headers={"Accept": "application/json"})
        try:
            answer = http_out.send(
                request,
                timeout_s=TIMEOUT_S,
                largest_answer=oauth2_settings.CIMD_MAX_DOCUMENT_SIZE,
            )
        except (http_out.AddressRefused, httpx.HTTPError, TimeoutError) as failure:
            raise cimd.CIMDError(f"The document of the client: {failure}") from failure
        if answer.status_code != 200:
            raise cimd.CIMDError(f"The document of the client: answered {answer.status_code}")
        try:
            document = parse_json(answer.content)
        except (ValueError, RecursionError) as failure:
            raise cimd.CIMDError("The document of the client is not JSON.") from failure
        if not isinstance(document, dict):
            raise cimd.CIMDError("The document of the client is no JSON object.")
        return document, cimd._effective_max_age(answer.headers.get("Cache-Control"))


def fetch_if_due(request: HttpRequest, client_id: str) -> None:
    """Have the row of a client say what its document says, for the consent page alone."""
    client = Client.objects.filter(client_id=client_id).first()
    if client is None:
        cimd.resolve_cimd_application(client_id, request)
    else:
        cimd.refresh_if_stale(client, request)


class MayRegister:
    """Lets clients come by themselves: not many in a row from one address."""

    def has_permission(self, request: HttpRequest, client_id: str = "") -> bool:
        try:
            limits.attempt_sign_in(address_of(request), "", limits.Door.CLIENTS)
        except LimitReached:
            return False
        return True
