"""Project wiring: routes."""

from __future__ import annotations

from django.contrib import admin
from django.urls import path

from approvals.api import api

urlpatterns = [
    path("api/v1/", api.urls),
    path("admin/", admin.site.urls),
]
