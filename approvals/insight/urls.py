"""The addresses of Insight, among those of the desk."""

from __future__ import annotations

from django.urls import path

from approvals.insight import page

urlpatterns = [
    path("insight/", page.insight, name="insight"),
    path("insight/<slug:name>.csv", page.as_file, name="insight-file"),
]
