"""Small storms with a director: each brings the product into one situation, at the instant meant.

A storm meets these situations by chance. Here each is certain, so that a promise that is broken in
it is seen within a minute (``mutants``).
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGSTOP

from bench.chaos import installation, records, sign_off
from bench.chaos.checker import STOOD_STILL
from bench.chaos.clients import Agent, Desk, Due, Person, Todo
from bench.chaos.installation import LEASE_S, Installation, until
from bench.chaos.records import ClientLog
from bench.chaos.script import Planned, Proposed
from bench.chaos.storm import Storm
from tests.faults import is_frozen, thaw

SOON_S = 30.0
SESSION_WAIT_S = 4.0  # more than a worker waits for a session of its pool
STAND_AT = "CHAOS_STAND_AT"  # a crash point at which a worker stops itself, once


@dataclass
class Stage(Storm):
    """A storm whose proposals and faults are those of its scenes."""

    scenes: Sequence[Scene] = ()
    calm_within_s: float = 40.0
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def start(self, stack: ExitStack) -> Installation:
        # What is acknowledged is on the disk, however seldom PostgreSQL writes by itself.
        return installation.start(self.folder, stack, wal_writer_delay="10s")

    def rage(self, here: Installation) -> None:
        log = ClientLog(self.folder / records.CLIENTS)
        self.here, self.desk = here, Desk({"alice": Todo()})
        self.ada = Agent("ada", here, log, self.desk)
        self.ada.caller.patience_s = SOON_S
        self.alice = Person("alice", here, log, self.desk.people["alice"])
        for scene in self.scenes:
            scene(self)
        self._agents = [self.ada]

    def propose(self, tool: str) -> str:
        number = next(self._numbers)
        key = f"scene-{number}"
        proposed = Proposed(number, tool, "leave", "once", key, by_a2a=False, is_compensated=False)
        self.ada.propose(proposed, self.ada)
        return self.ada.newest

    def decide(self, verdict: str, transaction: str) -> None:
        self.alice.decide(Due(0, verdict, transaction))

    @contextmanager
    def fault(self, kind: str, seconds: float) -> Iterator[None]:
        self._note(Planned(0, 0, kind, seconds, ""))
        yield
        self.happened[kind] += 1

    def mood(self, name: str, seconds: float) -> None:
        with self.fault(f"outside is {name}", seconds):
            self.here.mood(name, seconds)

    def wait_for(self, transaction: str, *states: str) -> None:
        until(lambda: self._state(transaction) in states, SOON_S, f"{transaction}: {states}")

    def _state(self, transaction: str) -> str:
        import psycopg

        sql = "SELECT state FROM ledger_transaction WHERE id = %s"
        with psycopg.connect(self.here.owner_url) as connection:
            row = connection.execute(sql, [transaction]).fetchone()
        return str(row[0]) if row else ""

    def wait_for_effect(self, transaction: str) -> None:
        file = self.folder / records.OUTSIDE
        effect, sought = '"did": "effect"', f'"transaction": "{transaction}"'

        def is_done() -> bool:
            return any(effect in each and sought in each for each in file.read_text().splitlines())

        until(is_done, SOON_S, f"{transaction} has its effect")


Scene = Callable[[Stage], None]


def the_answer_comes_while_the_database_is_away(stage: Stage) -> None:
    wire, links = stage.propose("wire"), stage.here.links
    assert links is not None
    stage.here.mood("slow", 10)
    stage.decide("approve", wire)
    stage.wait_for_effect(wire)
    with stage.fault("PostgreSQL absent", 4):
        stage.here.programs["postgres"].down()
        until(lambda: _answered(stage, wire), SOON_S, "the outside has answered")
        time.sleep(2 * SESSION_WAIT_S)  # it is recorded with others, and then by itself
        stage.here.programs["postgres"].up()
    stage.here.mood("", 0)


def _answered(stage: Stage, transaction: str) -> bool:
    lines = (stage.folder / records.OUTSIDE).read_text().splitlines()
    return any('"did": "answered"' in each and transaction in each for each in lines)


def a_key_is_repeated_after_the_end(stage: Stage) -> None:
    """By ``repeat_all``, once everything has ended."""
    reserve = stage.propose("reserve")
    stage.decide("reject", reserve)
    stage.wait_for(reserve, "aborted")


def the_outside_refuses_to_release(stage: Stage) -> None:
    reserve = stage.propose("reserve")
    stage.mood("refusing", 5)
    stage.decide("reject", reserve)
    stage.wait_for(reserve, "rolling_back", "aborted")


def the_answer_is_lost(stage: Stage) -> None:
    wire = stage.propose("wire")
    stage.mood("silent", 4)
    stage.decide("approve", wire)
    stage.wait_for_effect(wire)


def a_worker_stands_still_before_its_look(stage: Stage) -> None:
    """Between claim and call, for longer than its lease."""
    demolish = stage.propose("demolish")
    workers = stage.here.of_kind("worker")
    for worker in workers:
        worker.restart(**{STAND_AT: "before execute"})
    with stage.fault(STOOD_STILL, 4 * LEASE_S):
        stage.decide("approve", demolish)
        stage.wait_for(demolish, "in_doubt")
    for worker in workers:
        worker.extra = {}
        if stopped := [pid for pid in worker.pids() if is_frozen(pid)]:
            for pid in stopped:
                thaw(pid)
        else:  # it would still stand still at its next call
            worker.kill()


def a_late_signal_meets_a_new_approval(stage: Stage) -> None:
    """The signal of an approval that was undone reaches the claim when it is approved again."""
    transfer = stage.propose("transfer")
    _stand_before_claims(stage)
    stage.decide("approve", transfer)
    stage.decide("undo", transfer)
    with stage.fault(STOOD_STILL, SOON_S):
        standing = _wait_for_one_that_stands(stage)
        stage.decide("approve", transfer)
        _let_go(stage, standing)


def an_agent_is_stopped_before_its_work_begins(stage: Stage) -> None:
    transfer = stage.propose("transfer")
    _stand_before_claims(stage)
    stage.decide("approve", transfer)
    with stage.fault(STOOD_STILL, SOON_S):
        standing = _wait_for_one_that_stands(stage)
        with sign_off.stopped(stage.here, "ada"):
            _let_go(stage, standing)
            time.sleep(LEASE_S)


def _stand_before_claims(stage: Stage) -> None:
    for worker in stage.here.of_kind("worker"):
        worker.restart(**{STAND_AT: "before claim"})


def _wait_for_one_that_stands(stage: Stage) -> list[int]:
    """The process ids of the workers that stand still."""
    stopped: list[int] = []

    def stands_still() -> bool:
        workers = stage.here.of_kind("worker")
        stopped[:] = [pid for worker in workers for pid in worker.pids() if is_frozen(pid)]
        return bool(stopped)

    until(stands_still, SOON_S, "a worker is about to claim")
    return stopped


def _let_go(stage: Stage, standing: Sequence[int]) -> None:
    for pid in standing:
        thaw(pid)
    for worker in stage.here.of_kind("worker"):
        worker.extra = {}
        if not set(standing) & set(worker.pids()):  # it would stand still at its own claim
            worker.kill()


def postgres_dies_after_an_answer(stage: Stage) -> None:
    transfer = stage.propose("transfer")
    with stage.fault("PostgreSQL killed", 1):
        stage.here.programs["postgres"].down()
        stage.here.programs["postgres"].up()
    installation.wait_until_up(stage.here)
    stage.decide("approve", transfer)


def redis_is_away_at_a_sign_off(stage: Stage) -> None:
    transfer = stage.propose("transfer")
    with stage.fault("Redis absent", 3):
        stage.here.programs["redis"].down()
        stage.decide("approve", transfer)
        stage.here.programs["redis"].up()


def a_webhook_is_refused(stage: Stage) -> None:
    transfer = stage.propose("transfer")
    stage.mood("refusing", 3)
    stage.decide("reject", transfer)
    stage.wait_for(transfer, "aborted")


def stand_still(at: str) -> None:
    """In a worker: stop at this crash point, once, until somebody lets it go on."""
    from ledger.execution import crash_points

    def stop(name: str) -> None:
        if name == at:
            crash_points.hook = lambda name: None
            os.kill(os.getpid(), SIGSTOP)

    crash_points.hook = stop


def play(folder: Path, scenes: Sequence[Scene]) -> Stage:
    """Play these, one after another, and leave the records in the folder."""
    stage = Stage(0, len(scenes), len(scenes), folder, scenes=scenes)
    stage.run()
    return stage
