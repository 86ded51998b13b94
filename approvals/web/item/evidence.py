"""A picture or a PDF among the evidence of a transaction, from an address of its own.

A tool wrote it, so a browser gets it as nothing that can act: the type is that of its bytes, no
script and no further address is allowed, and what is no picture is a download.
"""

from __future__ import annotations

from pathlib import PurePath
from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils.http import content_disposition_header
from django.utils.text import slugify
from django.views.decorators.http import require_safe

from approvals.web.requests import tenants_of_request
from ledger.contracts.evidence import EXTENSIONS, PDF, media_type_of
from ledger.models import Transaction, contents_of

LOCKED = {
    "Content-Security-Policy": "sandbox; default-src 'none'",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "private, no-store",
}


@login_required
@require_safe
def evidence(request: HttpRequest, transaction_id: UUID, number: int) -> HttpResponse:
    """``Http404`` also for another tenant's, for a text, and for what is not what was sealed."""
    rows = Transaction.objects.for_tenants(tenants_of_request(request))
    row = get_object_or_404(rows, pk=transaction_id)
    pieces = zip(row.evidence or [], contents_of(row), strict=True)
    sealed, content = dict(enumerate(pieces, 1)).get(number, ({}, None))
    media_type = media_type_of(content or b"")
    if not media_type or media_type != sealed.get("media_type"):
        raise Http404
    response = HttpResponse(content, content_type=media_type, headers=LOCKED)
    name = _file_name(sealed["name"], number, media_type)
    response["Content-Disposition"] = content_disposition_header(media_type == PDF, name) or ""
    return response


def _file_name(name: str, number: int, media_type: str) -> str:
    """With the ending of what it is, whatever it is called."""
    stem = slugify(PurePath(name).stem)[:60] or f"evidence-{number}"
    return f"{stem}.{EXTENSIONS[media_type]}"
