"""Project wiring: routes."""

from __future__ import annotations

from django.apps import apps
from django.contrib import admin
from django.urls import include, path
from django.views.generic import RedirectView

from approvals.api import api
from approvals.web.inbox import missing
from approvals.web.sign_in.sign_in import admin_sign_in

admin.site.site_url = "/"
admin.site.enable_nav_sidebar = False  # lists have the whole width
SLACK = [path("slack/", include("approvals.slack.urls"))]
SCIM = (
    [path("scim/v2/", include("approvals.scim.urls"))]
    if apps.is_installed("approvals.scim")
    else []
)
OAUTH = [path("", include("approvals.oauth.urls"))] if apps.is_installed("approvals.oauth") else []
urlpatterns = [
    path("", include("approvals.web.urls")),
    *OAUTH,
    path("", include("a2a.urls")),
    *(SLACK if apps.is_installed("approvals.slack") else []),
    *SCIM,
    path("log/", include("ledger.proof.log.urls")),
    path("api/v1/", api.urls),
    path("admin/rq/", include("approvals.admin.queue_pages")),
    # Django's short cut to "view on site": nothing of ours is reached by it.
    path("admin/r/<path:rest>", lambda request, rest: missing(request)),
    path("admin/password_change/", RedirectView.as_view(pattern_name="desk:password")),
    path("admin/login/", admin_sign_in),
    path("admin/", admin.site.urls),
]
handler403 = "approvals.web.inbox.forbidden"
handler404 = "approvals.web.inbox.missing"
handler500 = "approvals.http.middleware.failed"
