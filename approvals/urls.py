"""Project wiring: routes."""

from __future__ import annotations

from django.contrib import admin
from django.urls import include, path

from approvals.api import api

admin.site.site_url = "/"
urlpatterns = [
    path("", include("approvals.web.urls")),
    path("", include("a2a.urls")),
    path("slack/", include("approvals.slack.urls")),
    path("log/", include("ledger.log_urls")),
    path("api/v1/", api.urls),
    path("admin/rq/", include("django_rq.urls")),
    path("admin/", admin.site.urls),
]
handler403 = "approvals.web.views.forbidden"
handler404 = "approvals.web.views.missing"
