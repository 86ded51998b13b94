"""Counts of this host's processes, in files of one folder, which each of them can read for all.

``/metrics`` reaches one web process and has to tell of all. Without ``ASSENT_METRICS_FOLDER``
nothing is counted. Nor is it while the folder cannot be written: what is counted never fails. The
files are those of the client library for Prometheus, and so is what reads them.
"""

from __future__ import annotations

import logging
import os
import socket
import struct
import time
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from threading import Lock

from django.conf import settings
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.mmap_dict import MmapedDict, mmap_key
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

logger = logging.getLogger(__name__)

UNREADABLE = (OSError, ValueError, LookupError, TypeError, RuntimeError, struct.error)
QUIET_S = 60.0
_FIRST, _MORE = 1 << 16, 1 << 14  # bytes of a file, and more than one name takes
# Containers that share the folder have processes of the same number.
_HOST = socket.gethostname().replace("_", "-")


class _Reserved(MmapedDict):
    """One file, with room on the disk before it is used.

    The library leaves holes, and to write into one on a full disk kills the process.
    """

    def __init__(self, filename: str, read_mode: bool = False) -> None:
        _reserve(filename, _FIRST)
        try:
            super().__init__(filename, read_mode)  # type: ignore[no-untyped-call]
        except UNREADABLE:  # of an earlier process of this number, which did not end well
            Path(filename).unlink()
            _reserve(filename, _FIRST)
            super().__init__(filename, read_mode)  # type: ignore[no-untyped-call]

    def _init_value(self, key: str) -> None:
        if self._used + len(key) + _MORE > self._capacity:
            _reserve(self._fname, 2 * self._capacity)
        super()._init_value(key)  # type: ignore[no-untyped-call]


def _reserve(filename: str, size: int) -> None:
    with open(filename, "ab") as file:
        file.write(bytes(max(0, size - file.tell())))


class _Counts:
    """The sums of this process, in a file for each type of metric."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._files: dict[str, _Reserved] = {}
        self._process = 0
        self._silent_until = 0.0

    def add(self, type_: str, amounts: Mapping[str, float]) -> None:
        try:
            with self._lock:
                file = self._file_of(type_)
                for key, amount in amounts.items():
                    value, _ = file.read_value(key)  # type: ignore[no-untyped-call]
                    file.write_value(key, value + amount, 0.0)  # type: ignore[no-untyped-call]
        except Exception as failure:
            if time.monotonic() >= self._silent_until:
                self._silent_until = time.monotonic() + QUIET_S
                logger.warning("nothing is counted in ASSENT_METRICS_FOLDER: %r", failure)

    def _file_of(self, type_: str) -> _Reserved:
        if self._process != os.getpid():  # a fork has its own
            self._process, self._files = os.getpid(), {}
        if type_ not in self._files:
            name = f"{type_}_{_HOST}-{self._process}.db"
            self._files[type_] = _Reserved(str(Path(settings.METRICS_FOLDER, name)))
        return self._files[type_]


_counts = _Counts()


@cache
def _key(metric: str, sample: str, help: str, labels: tuple[tuple[str, str], ...]) -> str:
    names, values = zip(*labels, strict=True)
    return mmap_key(metric, sample, list(names), list(values), help)


class Counted:
    """A counter by labels."""

    def __init__(self, name: str, help: str, *labels: str) -> None:
        self._name, self._help, self._labels = name, help, labels

    def count(self, *labels: str) -> None:
        if settings.METRICS_FOLDER:
            named = tuple(zip(self._labels, labels, strict=True))
            _counts.add("counter", {_key(self._name, f"{self._name}_total", self._help, named): 1})


class Timed:
    """A histogram of seconds by labels."""

    BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 600, float("inf"))

    def __init__(self, name: str, help: str, *labels: str) -> None:
        self._name, self._help, self._labels = name, help, labels

    def took(self, seconds: float, *labels: str) -> None:
        if settings.METRICS_FOLDER:
            named = tuple(zip(self._labels, labels, strict=True))
            hit = bisect_left(self.BUCKETS, seconds)
            amounts = {self._key("sum", named): seconds}
            for place, most in enumerate(self.BUCKETS):
                at_most = ("le", floatToGoString(most))  # type: ignore[no-untyped-call]
                amounts[self._key("bucket", (*named, at_most))] = float(place == hit)
            _counts.add("histogram", amounts)

    def _key(self, sample: str, labels: tuple[tuple[str, str], ...]) -> str:
        return _key(self._name, f"{self._name}_{sample}", self._help, labels)


class _Files(Collector):
    """The counts of all processes; without files that nobody can read."""

    def collect(self) -> Iterable[Metric]:
        files = [*map(str, Path(settings.METRICS_FOLDER).glob("*.db"))]
        try:
            return _merged(files)
        except UNREADABLE:
            return _merged([file for file in files if _is_readable(file)])


def _merged(files: list[str]) -> Iterable[Metric]:
    return list(MultiProcessCollector.merge(files))  # type: ignore[no-untyped-call]


def _is_readable(file: str) -> bool:
    try:
        _merged([file])
    except UNREADABLE:
        logger.warning("%s has counts that cannot be read; it can be removed", file)
        return False
    return True


def add_to(registry: CollectorRegistry) -> None:
    if settings.METRICS_FOLDER:
        registry.register(_Files())
