"""Where remote agents push news of our tasks. It only hurries our own look: nothing is believed."""

from __future__ import annotations

import secrets

from django.db.models.functions import Now
from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from a2a.models import Mirror
from ledger.workers import jobs


@csrf_exempt
@require_POST
def news(request: HttpRequest, mirror_id: int) -> HttpResponse:
    """Who has the mirror's secret may make us look at the task now."""
    mirror = Mirror.objects.filter(pk=mirror_id, is_over=False).first()
    said = request.headers.get("X-A2A-Notification-Token", "")
    if mirror is None or not secrets.compare_digest(said.encode(), mirror.secret.encode()):
        return HttpResponse(status=404)
    Mirror.objects.filter(pk=mirror_id).update(look_at=Now(), unchanged_looks=0)
    jobs.enqueue("mirror", mirror.task_id)
    return HttpResponse(status=204)
