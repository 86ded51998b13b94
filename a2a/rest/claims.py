"""Workers that wait for a task: no more of them wake than there are tasks, in turn by agent."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, zip_longest

from django.db.models import Count

from a2a.models import Task
from a2a.rest.doorbell import PREFIX_OF_WORK
from ledger.agents import callers_with
from ledger.api.waiting import LOOK_EVERY_S, Bell, Watch, changes
from ledger.api.waiting.waiters import Kind, Waiter, waiters
from ledger.foundation.batches import Batcher, in_thread
from ledger.models import Scope

# How many tasks wait for a worker, by agent and skill.
Work = dict[str, Counter[str]]


@dataclass(slots=True, eq=False)
class _WaitingWorker:
    """A waiting worker in the queue of its agent. No ``skills`` means any."""

    agent: str
    skills: frozenset[str]
    bell: Bell = field(default_factory=Bell)
    is_called: bool = False


class WorkerQueue:
    """The workers of this process that wait, each agent's in the order of their arrival.

    One query asks for the work of all of them: when the doorbell rings, when a worker arrives, and
    every second. A worker that was called and got nothing, because one of another process was
    faster, keeps its place.
    """

    def __init__(self) -> None:
        self._places: dict[str, dict[_WaitingWorker, None]] = {}
        self._called: Counter[str] = Counter()
        self._bell = Bell()
        self._watch = Watch(self._look)
        changes.also_listen(PREFIX_OF_WORK, lambda tenant: self._bell.ring())

    @contextmanager
    def place(self, agent: str, skills: frozenset[str]) -> Iterator[_WaitingWorker]:
        """A new place; its bell rings when there is a task for it."""
        changes.start()
        self._watch.start()
        place = _WaitingWorker(agent, skills)
        places = self._places.setdefault(agent, {})
        places[place] = None
        self._bell.ring()
        try:
            yield place
        finally:
            del places[place]
            if not places:
                self._places.pop(agent, None)
            if place.is_called:
                self.got_nothing(place)
                self._bell.ring()  # for one that counted as called until now

    def got_nothing(self, place: _WaitingWorker) -> None:
        """The worker came too late; it waits to be called again, at the next look at soonest."""
        if place.is_called:
            place.is_called = False
            self._called[place.agent] -= 1

    async def _look(self) -> None:
        while True:
            await self._bell.wait(LOOK_EVERY_S)
            if self._places:
                self._call(await in_thread(_work_of, list(self._places)))

    def _call(self, work: Work) -> None:
        in_turn = zip_longest(*(self._next_of(agent, tasks) for agent, tasks in work.items()))
        for place in chain.from_iterable(in_turn):
            if place is not None:
                place.is_called = True
                self._called[place.agent] += 1
                place.bell.ring()

    def _next_of(self, agent: str, tasks: Counter[str]) -> list[_WaitingWorker]:
        """The places to be called now: one for each task that nobody was called for."""
        free = tasks.total() - self._called[agent]
        called: list[_WaitingWorker] = []
        for place in self._places.get(agent, ()):
            if len(called) >= free:
                break
            skill = next((name for name in tasks if _fits(place, name) and tasks[name]), None)
            if skill is not None and not place.is_called:
                tasks[skill] -= 1
                called.append(place)
        return called


def _fits(place: _WaitingWorker, skill: str) -> bool:
    return not place.skills or skill in place.skills


def _work_of(agents: list[str]) -> Work:
    work: Work = {}
    waiting = Task.objects.claimable().filter(owner__in=agents).order_by()
    for agent, skill, number in waiting.values_list("owner", "skill_slug").annotate(Count("pk")):
        work.setdefault(agent, Counter())[skill] = number
    return work


worker_queue = WorkerQueue()
callers = Batcher(callers_with)


@dataclass(frozen=True, slots=True)
class ClaimWait:
    """A claim that may wait ``wait_s`` seconds. No ``skills`` means any of the agent's."""

    token: str
    skills: frozenset[str]
    wait_s: float
    address: str


async def claim_when_there_is_work(
    request: ClaimWait, claim: Callable[[], Awaitable[bool]]
) -> bool:
    """Call ``claim`` when there may be a task, until it returns true or the time is over.

    Returns false when the time is over. A token that may not work is left to ``claim``, which
    refuses it. Raises what a limit of ``waiters`` raises.
    """
    caller = await callers.ask(request.token)
    if caller is None or Scope.WORK not in caller.scopes:
        return await claim()
    agent = str(caller.principal)
    deadline = time.monotonic() + request.wait_s
    with (
        waiters.admitted(Waiter(Kind.WORK, caller.tenant, agent, request.address)),
        worker_queue.place(agent, request.skills) as place,
    ):
        while await place.bell.wait(deadline - time.monotonic()):
            if await claim():
                return True
            worker_queue.got_nothing(place)
    is_still_allowed = (await callers.ask(request.token)) is not None
    return False if is_still_allowed else await claim()
