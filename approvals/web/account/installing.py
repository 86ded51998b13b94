"""Files that make the desk an installable app: manifest, service worker, offline page."""

from __future__ import annotations

import hashlib
import json

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template.loader import render_to_string
from django.templatetags.static import static
from django.urls import reverse
from django.utils.translation import get_language, gettext as _
from django.views.decorators.http import require_safe

ICONS = (("img/icon-192.png", 192, "any"), ("img/icon-512.png", 512, "any"))
MASKABLE = (("img/icon-maskable-512.png", 512, "maskable"),)
# What the offline page is made of, and what shows a notification. Never a page with data.
KEPT = ("css/tokens.css", "css/desk.css", "css/notifications.css", "img/favicon.svg")
NOTIFICATION_ICON = "img/icon-192.png"


@require_safe
def manifest(request: HttpRequest) -> HttpResponse:
    """The manifest that browsers read to install the desk (W3C Web Application Manifest)."""
    response = JsonResponse(
        {
            "id": "/",
            "name": "Assent",
            "short_name": "Assent",
            "description": _("Where people sign off what AI agents are about to do."),
            "lang": get_language() or "en",
            "start_url": reverse("desk:inbox"),
            "scope": "/",
            "display": "standalone",
            "background_color": "#f6f7f9",
            "theme_color": "#4448b8",
            "icons": [
                {
                    "src": static(path),
                    "sizes": f"{size}x{size}",
                    "type": "image/png",
                    "purpose": use,
                }
                for path, size, use in ICONS + MASKABLE
            ],
        }
    )
    response["Content-Type"] = "application/manifest+json"
    return response


@require_safe
def service_worker(request: HttpRequest) -> HttpResponse:
    """The script, with the addresses of the files that it keeps."""
    kept = [*(static(path) for path in KEPT), static(NOTIFICATION_ICON)]
    files = json.dumps(kept)
    version = hashlib.sha256(f"{files} {get_language()}".encode()).hexdigest()[:12]
    context = {
        "files": kept,
        "version": version,
        "offline": reverse("desk:offline"),
        "icon": static(NOTIFICATION_ICON),
    }
    # Rendered without the request, like the offline page: nothing of a person gets into it.
    response = HttpResponse(
        render_to_string("service-worker.js", context), content_type="text/javascript"
    )
    response["Cache-Control"] = "no-cache"
    return response


@require_safe
def offline(request: HttpRequest) -> HttpResponse:
    """Shown by the service worker when the network is gone; the same for everybody."""
    return HttpResponse(render_to_string("offline.html"))
