"""Cost of 10,000 who wait to one web process: memory, threads, database sessions, and time.

python -m bench.waiting [NUMBER]
"""

from __future__ import annotations

import statistics
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from bench import crowd
from bench.crowd import Crowd
from bench.engines import bench_person, free_port, process
from bench.usage import cpu_seconds, family, resident

NUMBER = 10_000
ON_ONE = 1_000  # who wait for the same transaction
EVENTS = 10
Figures = dict[str, float]


@dataclass(frozen=True)
class Scene:
    """One tenant with an agent, its task, a person, and a server."""

    port: int
    pid: int
    origin: str
    token: str
    cookie: str
    task_id: str


def measure(number: int = NUMBER) -> Figures:
    """Figures of one web process with ``number`` waiters, a third of each kind."""
    with serving() as scene:
        figures: Figures = {}
        waiting = Crowd(scene.port)
        _warm_up(scene)
        figures |= {f"before: {name}": value for name, value in _costs(scene).items()}
        for kind in KINDS:
            figures |= _memory_of(kind, number // len(KINDS), scene, waiting)
        figures |= {f"{number} wait: {name}": value for name, value in _costs(scene).items()}
        figures |= _time_to_answer(scene, waiting)
        waiting.listen(0)
        figures["closed by the server"] = waiting.closed
        waiting.leave()
        return figures


def _warm_up(scene: Scene) -> None:
    """Everything that the process loads once."""
    some = Crowd(scene.port)
    for kind in KINDS:
        _add(some, kind, 100, scene)
    some.until(lambda: False, 2)
    some.leave()
    time.sleep(2)


def _memory_of(kind: str, number: int, scene: Scene, waiting: Crowd) -> Figures:
    before, began, used = resident(scene.pid), time.perf_counter(), cpu_seconds(scene.pid)
    _add(waiting, kind, number, scene)
    waiting.until(lambda: False, 1)
    used = cpu_seconds(scene.pid) - used
    return {
        f"{kind}: KiB each": (resident(scene.pid) - before) * 1024 / number,
        f"{kind}: CPU ms to begin": used * 1000 / number,
        f"{kind}: begun/s": number / (time.perf_counter() - began - 1),
    }


def _add(waiting: Crowd, kind: str, number: int, scene: Scene) -> None:
    if kind == "long-poll":
        ids = [_propose() for _ in range(min(number, 100))]
        paths = [f"/api/v1/transactions/{ids[i % len(ids)]}?wait=60" for i in range(number)]
        requests = [crowd.poll(path, scene.token) for path in paths]
        waiting.add(requests, answers=False, is_repeated=True)
    elif kind == "stream":
        request = crowd.subscription(scene.task_id, scene.token)
        waiting.add([request] * number, answers=True)
    else:
        request = crowd.desk(scene.cookie, scene.origin)
        waiting.add([request] * number, answers=True)


KINDS = ("long-poll", "stream", "socket")


def _costs(scene: Scene) -> Figures:
    spans = sorted(_page(scene) for _ in range(20))
    return {
        "MiB": resident(scene.pid),
        "threads": _threads(scene.pid),
        "database sessions": _sessions(),
        "a page, p50 ms": spans[len(spans) // 2],
        "a page, worst ms": spans[-1],
    }


def _page(scene: Scene) -> float:
    began = time.perf_counter()
    with urllib.request.urlopen(f"{scene.origin}/sign-in/", timeout=60) as answer:
        answer.read()
    return (time.perf_counter() - began) * 1000


def _time_to_answer(scene: Scene, waiting: Crowd) -> Figures:
    """From the commit of an event to the answer: for one who waits, and for all who wait for it."""
    alone = [_until_answered(scene, waiting, 1)[0] for _ in range(EVENTS)]
    first, last = _until_answered(scene, waiting, ON_ONE)
    return {
        "one waits: p50 ms": statistics.median(alone),
        "one waits: worst ms": max(alone),
        f"{ON_ONE} wait for one: first ms": first,
        f"{ON_ONE} wait for one: last ms": last,
    }


def _until_answered(scene: Scene, waiting: Crowd, number: int) -> tuple[float, float]:
    from ledger.principals import Surface, agent
    from ledger.transactions import coordinator

    transaction_id = _propose()
    path = f"/api/v1/transactions/{transaction_id}?wait=60"
    before = set(waiting.waiters)
    waiting.add([crowd.poll(path, scene.token)] * number, answers=False)
    those = [waiting.waiters[each] for each in set(waiting.waiters) - before]
    waiting.until(lambda: False, 1 + number / 500)
    committed = _commit(
        lambda: coordinator.cancel(
            transaction_id, by=agent("bench", "bench", "Bench"), via=Surface.REST, reason="bench"
        )
    )
    assert waiting.until(lambda: all(each.heard_at for each in those), 60), "not all were answered"
    assert all(b" 200 " in each.last[:20] for each in those), Counter(
        each.last[:40] for each in those
    )
    spans = [(each.heard_at - committed) * 1000 for each in those]
    return min(spans), max(spans)


def _commit(verb: Callable[[], object]) -> float:
    """The instant at which the verb's event was committed, before anybody was told."""
    from ledger.foundation import doorbell

    at: list[float] = []

    def note(**_: object) -> None:
        at.append(time.perf_counter())

    doorbell.event_committed.connect(note)
    try:
        verb()
    finally:
        doorbell.event_committed.disconnect(note)
    return at[0]


# --- the server and what it costs ---------------------------------------------------------------


@contextmanager
def serving() -> Iterator[Scene]:
    """One web process as it runs in production."""
    from approvals.processes import WEB

    token, cookie, task_id = _prepare()
    port = free_port()
    origin = f"http://localhost:{port}"
    command = [*WEB.command, "--port", str(port), "--log-level", "error"]
    with process(*command, port=port, ASSENT_PUBLIC_URL=origin) as pid:
        yield Scene(port, pid, origin, token, cookie, task_id)


def _prepare() -> tuple[str, str, str]:

    from a2a import submissions
    from a2a.models import Skill
    from a2a.submissions import Submission
    from ledger.agents.callers import callers_with
    from ledger.models import Agent, AgentToken, Tenant

    tenant, _ = Tenant.objects.get_or_create(
        slug="bench", defaults={"name": "Bench", "tools": ["*"]}
    )
    agent, _ = Agent.objects.get_or_create(tenant=tenant, slug="bench", defaults={"name": "Bench"})
    Skill.objects.get_or_create(agent=agent, slug="wait", defaults={"name": "Wait"})
    _, token = AgentToken.issue(agent, scopes=["propose", "submit", "work"])
    (caller,) = callers_with([token])
    assert caller is not None
    submission = Submission(skill="wait", input={})
    task = submissions.submit(submission, caller=caller, via="api").task
    _user, cookie = bench_person("watcher", "viewer")
    return token, cookie, str(task.pk)


def _propose() -> Any:
    from ledger.api.rendering import render_token
    from ledger.principals import agent
    from ledger.transactions import coordinator
    from ledger.transactions.coordinator import Proposal

    answer = coordinator.prepare(
        Proposal("measured", {"name": uuid4().hex}),
        by=agent("bench", "bench", "Bench"),
        tenant="bench",
        key=uuid4().hex,
        via="api",
        render=render_token,
    )
    return answer.transaction_id


def _sessions() -> int:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )
        return int(cursor.fetchone()[0])


def _threads(pid: int) -> int:
    return sum(len(list(Path(f"/proc/{member}/task").iterdir())) for member in family(pid))


if __name__ == "__main__":
    from bench.engines import engines

    with engines():
        for name, value in measure(int(sys.argv[1]) if sys.argv[1:] else NUMBER).items():
            print(f"  {name:<36} {value:10.2f}")
