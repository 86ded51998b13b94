"""The address to which remote agents push that a task of ours has changed.

Nothing in the request is believed: it only makes the next poll come at once.
"""

from __future__ import annotations

import secrets

from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from a2a.models import Mirror
from a2a.remote import sync
from ledger.workers import jobs


@csrf_exempt
@require_POST
def news(request: HttpRequest, mirror_id: int) -> HttpResponse:
    """Poll the task now, if the request carries the mirror's secret."""
    mirror = Mirror.objects.filter(pk=mirror_id, is_over=False).first()
    token = request.headers.get("X-A2A-Notification-Token", "")
    if mirror is None or not secrets.compare_digest(token.encode(), mirror.secret.encode()):
        return HttpResponse(status=404)
    sync.poll_now(mirror.task_id)
    jobs.enqueue("mirror", mirror.task_id)
    return HttpResponse(status=204)
