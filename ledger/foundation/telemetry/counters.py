"""Counts of this host's processes, in files of one folder, which each of them can read for all.

``/metrics`` reaches one web process and has to tell of all. Without ``ASSENT_METRICS_FOLDER``
nothing is counted. The client library is told of the folder by ``PROMETHEUS_MULTIPROC_DIR``, which
the settings set.
"""

from __future__ import annotations

import os
import socket

from django.conf import settings
from prometheus_client import CollectorRegistry, Counter, Histogram, values
from prometheus_client.multiprocess import MultiProcessCollector

if settings.METRICS_FOLDER:
    # Containers that share the folder have processes of the same number.
    _HOST = socket.gethostname().replace("_", "-")
    values.ValueClass = values.MultiProcessValue(lambda: f"{_HOST}-{os.getpid()}")  # type: ignore[no-untyped-call]


class Counted:
    """A counter by labels."""

    def __init__(self, name: str, help: str, *labels: str) -> None:
        self._counter = Counter(name, help, labels, registry=None)

    def count(self, *labels: str) -> None:
        if settings.METRICS_FOLDER:
            self._counter.labels(*labels).inc()


class Timed:
    """A histogram of seconds by labels."""

    BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 600)

    def __init__(self, name: str, help: str, *labels: str) -> None:
        self._seconds = Histogram(name, help, labels, registry=None, buckets=self.BUCKETS)

    def took(self, seconds: float, *labels: str) -> None:
        if settings.METRICS_FOLDER:
            self._seconds.labels(*labels).observe(seconds)


def add_to(registry: CollectorRegistry) -> None:
    if settings.METRICS_FOLDER:
        MultiProcessCollector(registry, path=settings.METRICS_FOLDER)  # type: ignore[no-untyped-call]
