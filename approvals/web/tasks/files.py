"""A file of text that a client, a giver or a worker attached, as a download."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils.http import content_disposition_header
from django.views.decorators.http import require_safe

from a2a.models import Task
from approvals.presentation import key_of_file, name_of_file, text_of_file
from approvals.web.requests import tenants_of_request


@login_required
@require_safe
def file(request: HttpRequest, task_id: UUID, key: str) -> HttpResponse:
    row = get_object_or_404(Task.objects.for_tenants(tenants_of_request(request)), pk=task_id)
    part = next((part for part in _parts(row) if key_of_file(part) == key), None)
    if part is None:
        raise Http404
    response = HttpResponse(text_of_file(part), content_type="text/plain; charset=utf-8")
    response["Content-Disposition"] = content_disposition_header(True, name_of_file(part)) or ""
    response["X-Content-Type-Options"] = "nosniff"
    response["Cache-Control"] = "private, no-store"
    return response


def _parts(row: Task) -> Iterator[dict[str, Any]]:
    for parts in (
        row.messages.order_by("pk").values_list("parts", flat=True),
        row.artifacts.order_by("pk").values_list("parts", flat=True),
        row.questions.order_by("pk").values_list("evidence", flat=True),
    ):
        for some in parts.iterator(chunk_size=20):
            yield from some
