"""The cache of rendered tasks is bounded, and shared by threads."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from a2a.models import Task
from a2a.protocol import render_cache
from a2a.protocol.render_cache import RenderCache
from a2a.states import TaskState
from ledger.models import new_id

AT = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def tasks(monkeypatch) -> list[Task]:
    """More of them than are kept."""
    monkeypatch.setattr(render_cache, "MOST_TASKS", 8)
    return [Task(id=new_id(), updated_at=AT) for _ in range(64)]


def test_a_task_is_kept_until_it_changes_or_others_need_the_room(tasks):
    cache = RenderCache()
    cache.put(tasks[0], b"first")

    assert cache.get(tasks[0].pk, AT) == b"first"
    assert cache.get(tasks[0].pk, AT + timedelta(seconds=1)) is None
    for task in tasks[1:]:
        cache.put(task, b"other")
    assert cache.get(tasks[0].pk, AT) is None


def test_a_task_whose_transaction_moves_without_it_is_not_kept(tasks):
    cache, waiting = RenderCache(), tasks[0]
    waiting.transaction_id, waiting.state = new_id(), TaskState.AUTH_REQUIRED

    cache.put(waiting, b"waiting")

    assert cache.get(waiting.pk, AT) is None


class Interrupted(datetime):
    """A time that lets another thread work while it is compared."""

    meanwhile: Callable[[], None]

    def __eq__(self, other: object) -> bool:
        self.meanwhile()
        return super().__eq__(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = datetime.__hash__


def test_a_task_may_be_pushed_out_by_a_thread_while_another_reads_it(tasks):
    cache = RenderCache()
    cache.put(tasks[0], b"first")
    at = Interrupted(AT.year, AT.month, AT.day, tzinfo=UTC)
    at.meanwhile = lambda: [cache.put(task, b"other") for task in tasks[1:]]

    assert cache.get(tasks[0].pk, at) == b"first"
