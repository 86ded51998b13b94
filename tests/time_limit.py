"""A time limit: a test without the mark ``slow`` or ``browser`` that takes over 3 s fails.

What it shares with others does not count: engines, fixtures of a module or session. Where more
runs than there are processors for, the limit grows as the load does; where a short loop right after
the test takes much longer than its own processor time, nothing is judged. CI, whose machine nobody
chose, allows four times as much.
"""

from __future__ import annotations

import os
import time
from collections.abc import Generator
from typing import Any

import pytest

LIMIT_S = 12.0 if os.environ.get("CI") else 3.0
LOOP_S = 0.2
MUCH_LONGER = 1.5
MARKS = ("slow", "browser")
taken = pytest.StashKey[float]()


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: Any, request: Any) -> Generator[None, Any, Any]:
    began = time.perf_counter()
    try:
        return (yield)
    finally:
        if fixturedef.scope != "function":
            _add(request._pyfuncitem, began - time.perf_counter())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None]:
    began = time.perf_counter()
    yield
    _add(item, time.perf_counter() - began)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    began = time.perf_counter()
    yield
    _add(item, time.perf_counter() - began)
    if not item.config.option.usepdb:
        _judge(item)


def _add(item: pytest.Item, seconds: float) -> None:
    item.stash[taken] = item.stash.get(taken, 0.0) + seconds


def _judge(item: pytest.Item) -> None:
    seconds, limit = item.stash[taken], LIMIT_S * max(1.0, load())
    if seconds < limit or any(map(item.get_closest_marker, MARKS)):
        return
    if not is_busy():
        pytest.fail(
            f"took {seconds:.1f} s; without the mark `slow` at most {limit:.1f} s are allowed "
            "(tests/time_limit.py)",
            pytrace=False,
        )


def load() -> float:
    """How much waits or runs for each processor, over the last minute."""
    return os.getloadavg()[0] / (os.cpu_count() or 1)


def is_busy() -> bool:
    began, worked = time.perf_counter(), time.thread_time()
    while time.thread_time() - worked < LOOP_S:
        pass
    return time.perf_counter() - began > MUCH_LONGER * LOOP_S
