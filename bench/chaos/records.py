"""The three records of a storm: what clients were told, the ledger, the outside's own file."""

from __future__ import annotations

import json
import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Line = dict[str, Any]
CLIENTS, LEDGER, OUTSIDE, PROOFS = "clients.jsonl", "ledger.json", "outside.jsonl", "proofs.json"
FAULTS, BRAKES = "faults.jsonl", "brakes.jsonl"


class ClientLog:
    """The clients' requests and responses, a line of JSON each. Threads may share it."""

    def __init__(self, path: Path) -> None:
        self._lock, self._file = threading.Lock(), path.open("a")

    def write(self, did: str, **more: Any) -> None:
        with self._lock:
            self._file.write(json.dumps({"did": did, "at": time.time(), **more}) + "\n")
            self._file.flush()


@dataclass
class Records:
    """All three, as the checker reads them."""

    clients: list[Line] = field(default_factory=list)
    outside: list[Line] = field(default_factory=list)
    faults: list[Line] = field(default_factory=list)
    brakes: list[Line] = field(default_factory=list)  # an agent, from and until
    # Of the ledger: transactions by id, events of each in their order, and so on.
    rows: dict[str, Line] = field(default_factory=dict)
    events: dict[str, list[Line]] = field(default_factory=lambda: defaultdict(list))
    keys: dict[str, str | None] = field(default_factory=dict)
    tasks: dict[str, Line] = field(default_factory=dict)
    deliveries: list[Line] = field(default_factory=list)
    # What the verifiers found to be broken, by their name; an empty text is a whole ledger.
    proofs: dict[str, str] = field(default_factory=dict)
    retry_safe: frozenset[str] = frozenset({"transfer", "reserve", "order", "note"})
    most_attempts: int = 12

    def did(self, *kinds: str) -> list[Line]:
        return [line for line in self.clients if line["did"] in kinds]

    def outside_did(self, kind: str) -> list[Line]:
        return [line for line in self.outside if line["did"] == kind]

    def kinds_of(self, transaction: str) -> list[str]:
        return [event["kind"] for event in self.events.get(transaction, [])]


def read(folder: Path) -> Records:
    """The records that a storm left in its folder."""
    ledger = json.loads((folder / LEDGER).read_text())
    records = Records(
        clients=_lines(folder / CLIENTS),
        outside=_lines(folder / OUTSIDE),
        faults=_lines(folder / FAULTS),
        brakes=_lines(folder / BRAKES),
        rows={row["id"]: row for row in ledger["rows"]},
        keys=ledger["keys"],
        tasks={task["id"]: task for task in ledger["tasks"]},
        deliveries=ledger["deliveries"],
        proofs=json.loads((folder / PROOFS).read_text()),
    )
    for event in ledger["events"]:
        records.events[event["transaction"]].append(event)
    return records


def _lines(path: Path) -> list[Line]:
    """None of a record that was never begun."""
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text.splitlines()]


_ROWS = """
    SELECT id::text, state, ending, tool, operation_key, receipt, late_receipt, attempts,
           proposed_by, compensation_receipt, error, arguments,
           extract(epoch FROM next_attempt_at - now())::float AS next_attempt_in_s
    FROM ledger_transaction
"""
_EVENTS = """
    SELECT transaction_id::text AS transaction, seq, kind, principal, details,
           extract(epoch FROM at)::float AS at
    FROM ledger_event WHERE transaction_id IS NOT NULL ORDER BY transaction_id, seq
"""
_DELIVERIES = """
    SELECT d.id, d.channel, d.recipient, d.state, d.error, e.transaction_id::text AS transaction,
           extract(epoch FROM now() - d.next_attempt_at)::float AS overdue_s
    FROM ledger_delivery d JOIN ledger_event e ON e.id = d.event_id
"""


def save_ledger(database_url: str, path: Path) -> None:
    """Write what the checker needs of the ledger, as of one instant."""
    import psycopg
    from psycopg.rows import dict_row

    with psycopg.connect(database_url, row_factory=dict_row) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        ledger = {
            "rows": connection.execute(_ROWS).fetchall(),
            "events": connection.execute(_EVENTS).fetchall(),
            "deliveries": connection.execute(_DELIVERIES).fetchall(),
            "keys": {
                row["key"]: row["transaction"]
                for row in connection.execute(
                    "SELECT agent || ' ' || key AS key, transaction_id::text AS transaction"
                    " FROM ledger_idempotencykey"
                )
            },
            "tasks": connection.execute(
                "SELECT id::text, state, transaction_id::text AS transaction FROM a2a_task"
            ).fetchall(),
        }
    path.write_text(json.dumps(ledger, default=str))
