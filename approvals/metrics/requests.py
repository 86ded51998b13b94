"""Requests over HTTP, counted in files of one folder by all web processes of this host.

Files, as a scrape reaches one of the processes and has to tell of all. Without a folder nothing is
counted. ``PROMETHEUS_MULTIPROC_DIR``, which the settings set, is how the client library is told.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.multiprocess import MultiProcessCollector

PARTS = (
    *(("/api/", "rest"), ("/a2a", "a2a"), ("/mcp", "mcp"), ("/humanlayer/", "humanlayer")),
    *(("/slack/", "slack"), ("/static/", "static"), ("/log/", "log"), ("/sign-in/", "sign_in")),
)
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
SECONDS = Histogram(
    "assent_http_request_seconds",
    "Requests over HTTP, from their first byte to the end of the answer.",
    ["part", "method", "status"],
    registry=None,
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
)


def count(scope: Any, status: int, seconds: float) -> None:
    """Few values of each label, whatever strangers ask for."""
    if settings.METRICS_FOLDER:
        method = scope["method"] if scope["method"] in METHODS else "other"
        SECONDS.labels(_part_of(scope), method, str(status)).observe(seconds)


def add_to(registry: CollectorRegistry) -> None:
    if settings.METRICS_FOLDER:
        MultiProcessCollector(registry, path=settings.METRICS_FOLDER)  # type: ignore[no-untyped-call]


def _part_of(scope: Any) -> str:
    if b"wait=" in scope.get("query_string", b""):
        return "long_polls"
    path = scope["path"]
    return next((name for begin, name in PARTS if path.startswith(begin)), "pages")
