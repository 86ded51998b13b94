"""The state of the sandbox: one SQLite file, one database transaction at a time."""

from __future__ import annotations

import json
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from examples.sandbox.faults import Faults
from examples.sandbox.wire import Answer, Ask, Refused, fingerprint

VERSION = 2  # of the tables; a file of another version is emptied
SCHEMA = """
CREATE TABLE IF NOT EXISTS effects (
    id INTEGER PRIMARY KEY, at REAL NOT NULL, kind TEXT NOT NULL, subject TEXT NOT NULL,
    key TEXT NOT NULL, receipt TEXT NOT NULL UNIQUE, summary TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS answers (
    scope TEXT NOT NULL, key TEXT NOT NULL, fingerprint TEXT NOT NULL, status INTEGER NOT NULL,
    body TEXT NOT NULL, PRIMARY KEY (scope, key));
CREATE TABLE IF NOT EXISTS fares (
    flight_id TEXT PRIMARY KEY, amount TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS holds (
    id TEXT PRIMARY KEY, flight_id TEXT NOT NULL, passenger TEXT NOT NULL, amount TEXT NOT NULL,
    currency TEXT NOT NULL, expires_at REAL NOT NULL, state TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS holds_of_flight ON holds (flight_id, state);
CREATE TABLE IF NOT EXISTS bookings (
    ref TEXT PRIMARY KEY, hold_id TEXT NOT NULL UNIQUE, flight_id TEXT NOT NULL,
    passenger TEXT NOT NULL, amount TEXT NOT NULL, currency TEXT NOT NULL, key TEXT NOT NULL,
    cancellation TEXT NOT NULL DEFAULT '');
CREATE INDEX IF NOT EXISTS bookings_of_flight ON bookings (flight_id);
CREATE INDEX IF NOT EXISTS bookings_by_key ON bookings (key);
CREATE TABLE IF NOT EXISTS payments (
    id TEXT PRIMARY KEY, customer TEXT NOT NULL, amount TEXT NOT NULL, currency TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS instances (id TEXT PRIMARY KEY);
CREATE TABLE IF NOT EXISTS refunds (
    id TEXT PRIMARY KEY, payment_id TEXT NOT NULL, amount TEXT NOT NULL, currency TEXT NOT NULL,
    reason TEXT NOT NULL, key TEXT NOT NULL, reversal TEXT NOT NULL DEFAULT '');
CREATE INDEX IF NOT EXISTS refunds_of_payment ON refunds (payment_id);
CREATE INDEX IF NOT EXISTS refunds_by_key ON refunds (key);
CREATE TABLE IF NOT EXISTS terminations (
    receipt TEXT PRIMARY KEY, instance_id TEXT NOT NULL, reason TEXT NOT NULL,
    reference TEXT NOT NULL, at REAL NOT NULL);
CREATE INDEX IF NOT EXISTS terminations_of_instance ON terminations (instance_id);
"""
TABLES = (
    "effects",
    "answers",
    "fares",
    "holds",
    "bookings",
    "payments",
    "instances",
    "refunds",
    "terminations",
)


class Store:
    """Committed data survives the death of the process. A reset increments ``generation``."""

    def __init__(self, path: str = ":memory:") -> None:
        self.generation = 0
        self.faults = Faults()
        self._lock = threading.RLock()
        self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._db.row_factory = sqlite3.Row
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = NORMAL")
        self._drop_tables_of_other_versions()
        self._db.executescript(SCHEMA)

    def _drop_tables_of_other_versions(self) -> None:
        if self._db.execute("PRAGMA user_version").fetchone()[0] != VERSION:
            for table in TABLES:
                self._db.execute(f"DROP TABLE IF EXISTS {table}")
            self._db.execute(f"PRAGMA user_version = {VERSION}")

    @contextmanager
    def work(self) -> Iterator[None]:
        """One database transaction; other threads wait."""
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    def rows(self, sql: str, *values: Any) -> list[sqlite3.Row]:
        return self._db.execute(sql, values).fetchall()

    def row(self, sql: str, *values: Any) -> sqlite3.Row | None:
        row: sqlite3.Row | None = self._db.execute(sql, values).fetchone()
        return row

    def write(self, sql: str, *values: Any) -> None:
        self._db.execute(sql, values)

    def record_effect(self, kind: str, subject: str, key: str, receipt: str, summary: str) -> None:
        """Count one effect. Effects are never removed, except by a reset."""
        self.write(
            "INSERT INTO effects (at, kind, subject, key, receipt, summary)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            time.time(),
            kind,
            f"{kind}:{subject}",
            key,
            receipt,
            summary,
        )

    def once(self, scope: str, ask: Ask, do: Callable[[], Answer]) -> Answer:
        """Run ``do`` at most once per Idempotency-Key; a repeated request gets the first response.

        Refusals are not stored: nothing was done, so the key is still free. Raises ``Refused``.
        """
        request = fingerprint(dict(ask.fields))
        first = self.row("SELECT * FROM answers WHERE scope = ? AND key = ?", scope, ask.key)
        if first is None:
            answer = do()
            self.write(
                "INSERT INTO answers (scope, key, fingerprint, status, body)"
                " VALUES (?, ?, ?, ?, ?)",
                scope,
                ask.key,
                request,
                answer.status,
                json.dumps(answer.body),
            )
            return answer
        if first["fingerprint"] != request:
            raise Refused(
                409, "idempotency_key_reused", "This Idempotency-Key was used for another request."
            )
        headers = {"Idempotent-Replayed": "true"}
        return Answer(json.loads(first["body"]), first["status"], headers)

    def reset(self) -> None:
        self.generation += 1
        for table in TABLES:
            self.write(f"DELETE FROM {table}")

    def close(self) -> None:
        with self._lock:
            self._db.close()


def new_id(prefix: str) -> str:
    return f"{prefix}_{secrets.token_hex(6)}"
