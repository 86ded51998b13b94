"""One storm: clients at work, faults as the script says, calm, and the records at the end."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import threading
import time
import traceback
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from bench.chaos import engines, faults, hosts, installation, records, script
from bench.chaos.clients import Agent, Desk, Person, Todo
from bench.chaos.installation import AGENTS, PEOPLE, ROOT, Installation
from bench.chaos.records import ClientLog
from bench.chaos.script import DECIDED_WITHIN_S, Planned
from bench.chaos.sign_off import LAPSES_AFTER_MIN

LANES = 2  # so many faults at a time
# After the last fault everything has ended, or is in doubt for a reason. The time to decide may
# have been put off by a brake that nobody could lift.
CALM_WITHIN_S = DECIDED_WITHIN_S + LAPSES_AFTER_MIN * 60 + 60.0
LOOK_EVERY_S = 1.0


@dataclass
class Storm:
    """A storm as ordered, and its progress."""

    seed: int
    transactions: int
    faults: int
    folder: Path
    acknowledged: int = 0
    lanes: int = LANES
    on_hosts: bool = False
    happened: Counter[str] = field(default_factory=Counter)
    left_out: dict[str, str] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)  # of the storm itself, not of the product
    seconds_to_calm: float = 0.0
    calm_within_s: float = CALM_WITHIN_S
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self) -> None:
        """Start everything, storm, wait for calm, and save the three records."""
        with ExitStack() as stack:
            here = self.start(stack)
            self.left_out = faults.missing(here)
            self.rage(here)
            self._calm(here)
            self._save(here)

    def start(self, stack: ExitStack) -> Installation:
        if self.on_hosts:
            return hosts.start(self.folder, self.seed, stack)
        return installation.start(self.folder, stack)

    def kinds(self, here: Installation) -> dict[str, float]:
        """The faults that may happen in this storm, and for how many seconds at most."""
        return faults.possible(here)

    def happen(self, here: Installation, fault: Planned) -> None:
        faults.happen(here, fault.kind, fault.random(), fault.seconds)

    # --- the storm ----------------------------------------------------------------------------

    def rage(self, here: Installation) -> None:
        log = ClientLog(self.folder / records.CLIENTS)
        desk = Desk({name: Todo() for name, role in PEOPLE.items() if role == "approver"})
        agents = [Agent(name, here, log, desk) for name in AGENTS]
        supervisor = Agent("supervisor", here, log, desk)
        people = [Person(name, here, log, todo) for name, todo in desk.people.items()]
        operator = Person("olga", here, log, desk.operator)
        deciding = [supervisor.supervise, operator.work, *(person.work for person in people)]
        planned = script.faults(self.seed, self.transactions, self.faults, self.kinds(here))
        self._mended = threading.Condition()
        self._waiting = {fault.number: fault.at for fault in planned}
        numbers = itertools.count()
        proposing = [
            self._thread(lambda a=agent, r=rival: self._propose(a, r, numbers))
            for agent, rival in zip(agents, [*agents[1:], agents[0]], strict=True)
        ]
        queue = iter(planned)
        raging = [self._thread(lambda: self._break(here, queue)) for _ in range(self.lanes)]
        decided = [self._thread(each) for each in deciding]
        for thread in (*proposing, *raging):
            thread.join()
        desk.close()
        for thread in decided:
            thread.join()
        self._agents = agents

    def _thread(self, target: object) -> threading.Thread:
        def guarded() -> None:
            try:
                target()  # type: ignore[operator]
            except Exception:
                self.failures.append(traceback.format_exc())

        thread = threading.Thread(target=guarded, daemon=True)
        thread.start()
        return thread

    def _propose(self, agent: Agent, rival: Agent, numbers: itertools.count[int]) -> None:
        while (number := next(numbers)) < self.transactions:
            self._wait_for_faults(number)
            agent.propose(script.proposal(self.seed, number), rival)
            with self._mended:
                self.acknowledged += 1
                self._mended.notify_all()

    def _wait_for_faults(self, number: int) -> None:
        """Nobody runs ahead of the faults by more than three: they are spread over the work."""
        ahead = 3 * self.transactions / max(1, self.faults)
        with self._mended:
            while self._waiting and number > min(self._waiting.values()) + ahead:
                self._mended.wait(1)

    def _break(self, here: Installation, queue: object) -> None:
        while (fault := self._next(queue)) is not None:
            with self._mended:
                while self.acknowledged < fault.at:
                    self._mended.wait(1)
            self._note(fault)
            try:
                self.happen(here, fault)
            finally:
                with self._mended:
                    self.happened[fault.kind] += 1
                    del self._waiting[fault.number]
                    self._mended.notify_all()

    def _next(self, queue: object) -> Planned | None:
        with self._lock:
            return next(queue, None)  # type: ignore[call-overload, no-any-return]

    def _note(self, fault: Planned) -> None:
        line = {"at": time.time(), "after": self.acknowledged, "kind": fault.kind}
        with self._lock, (self.folder / records.FAULTS).open("a") as file:
            file.write(json.dumps(line | {"seconds": fault.seconds}) + "\n")

    # --- after it -----------------------------------------------------------------------------

    def _calm(self, here: Installation) -> None:
        """Nothing is broken any more: wait until everything has ended, or until it is too late."""
        began = time.monotonic()
        port = int(here.owner_url.rpartition(":")[2].partition("/")[0])
        address = here.owner_url.rpartition("@")[2].partition(":")[0]
        engines.wait_for_postgres(address, port)
        installation.wait_until_up(here)
        for agent in self._agents:
            agent.read_all()  # and answer what was asked since they looked last: it waits for that
        while not self._has_ended(here) and time.monotonic() - began < self.calm_within_s:
            time.sleep(LOOK_EVERY_S)
        self.seconds_to_calm = time.monotonic() - began
        for agent in self._agents:
            agent.read_all()
            agent.repeat_all()

    def _has_ended(self, here: Installation) -> bool:
        import psycopg

        open_rows = (
            "SELECT count(*) FROM ledger_transaction WHERE state NOT IN"
            " ('refused', 'committed', 'aborted', 'failed', 'compensated')"
            " AND NOT (state = 'in_doubt' AND (tool IN ('demolish', 'wire') OR attempts >= 12))"
        )
        owed = "SELECT count(*) FROM ledger_delivery WHERE state = 'waiting'"
        with psycopg.connect(here.owner_url) as connection:
            counts = [connection.execute(sql).fetchone() for sql in (open_rows, owed)]
        return all(count == (0,) for count in counts)

    def _save(self, here: Installation) -> None:
        proofs = {"verify_ledger": self._verified(here), "examples/verify.py": self._exported(here)}
        (self.folder / records.PROOFS).write_text(json.dumps(proofs))
        records.save_ledger(here.owner_url, self.folder / records.LEDGER)

    def _verified(self, here: Installation) -> str:
        return engines.ledger_fault(self._manage(here))

    def _exported(self, here: Installation) -> str:
        """The second verifier, which shares no code with the first."""
        file = self.folder / "export.jsonl"
        public = _public_key()

        def prove() -> None:
            engines.run_manage(self._manage(here), "export_ledger", str(file))
            subprocess.run(
                [sys.executable, "examples/verify.py", str(file), "--public-key", public],
                cwd=ROOT,
                check=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )

        return _fault_of(prove)

    def _manage(self, here: Installation) -> dict[str, str]:
        urls = {"DATABASE_URL": here.owner_url, "REDIS_URL": here.redis_url}
        return {**os.environ, **here.environment, **urls}


def _fault_of(prove: object) -> str:
    try:
        prove()  # type: ignore[operator]
    except subprocess.CalledProcessError as failure:
        return str(failure.stdout)[-3000:] or str(failure)
    return ""


def _public_key() -> str:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    seed = bytes.fromhex(installation.KEYS["ASSENT_AUDIT_KEY"])
    return Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw().hex()
