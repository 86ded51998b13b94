"""The policy documents that supervising agents decide by, for people to read."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from approvals.web.requests import tenants_of_request
from ledger.models import PolicyDocument


@login_required
@require_safe
def policy_document(request: HttpRequest, tenant: str, sha256: str) -> HttpResponse:
    """One version of a policy as it was written; ``?cited=2,4.1`` marks paragraphs."""
    if tenant not in tenants_of_request(request):
        raise Http404
    document = get_object_or_404(PolicyDocument, tenant=tenant, sha256=sha256)
    cited = frozenset(request.GET.get("cited", "").split(","))
    paragraphs = [(number, text, number in cited) for number, text in document.paragraphs]
    context = {"document": document, "opening": document.opening, "paragraphs": paragraphs}
    return render(request, "desk/policy_document.html", context)
