"""PostgreSQL's reads for each page: the statements that it asks for, each explained.

Rows that were read do not depend on how busy the machine is, so the two ledgers are compared by
them, and a test can assert them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from bench.scale import clicks
from bench.scale.clicks import Click

MOST_READ = 5_000  # rows or index entries, for one statement
LARGE = 2_000  # rows, from which on a table is not to be read whole
Statement = tuple[str, Any]
READS, WRITES = ("SELECT", "WITH RECURSIVE"), ("UPDATE", "DELETE", "WITH")


@dataclass(slots=True)
class Work:
    """The work of PostgreSQL for one page, and what is wrong with it."""

    rows: int = 0
    faults: list[str] = field(default_factory=list)


def works(only: str = "") -> Iterator[tuple[str, Work]]:
    """The work of each page and operation whose name has ``only`` in it, in this process."""
    sizes = _sizes()
    for name, do in _everything().items():
        if only in name:
            with _heard() as statements:
                do()
            yield name, _work_of(statements, sizes)


def _everything() -> dict[str, Callable[[], object]]:
    from bench.scale.measuring import approve_one, sweep_once

    people = _People(clicks.facts())
    pages = [click for click in clicks.ALL if not click.path.startswith("/a2a/")]
    visits: dict[str, Callable[[], object]] = {
        click.name: lambda click=click: people.visit(click)
        for click in pages  # type: ignore[misc]
    }
    return {**visits, **_tasks_of_agents(), "approve": approve_one, "sweeper": sweep_once}


class _People:
    """Signed-in people and agents with tokens, without a web server."""

    def __init__(self, facts: dict[str, str]) -> None:
        from django.contrib.auth.models import User
        from django.test import Client

        from bench.scale.ledgers import _agents

        self._facts, self._tokens = facts, _agents()
        self._nobody = Client(SERVER_NAME="localhost")
        self._people = {}
        for person in User.objects.all():
            self._people[person.username] = Client(SERVER_NAME="localhost")
            self._people[person.username].force_login(person)

    def visit(self, click: Click) -> None:
        headers, client = {}, self._nobody
        if click.who.startswith("@"):
            headers = {"Authorization": f"Bearer {self._tokens[click.who[1:]]}"}
        elif click.who == "scrape":
            headers = {"Authorization": "Bearer scrape"}
        elif click.who:
            client = self._people[click.who]
        answer = client.get(click.path.format(**self._facts), headers=headers)
        assert answer.status_code == 200, (click, answer.status_code, answer.content[:300])
        if click.first_byte_only:
            next(iter(answer.streaming_content))


def _tasks_of_agents() -> dict[str, Callable[[], object]]:
    """``ListTasks``, which another kind of server answers."""
    from a2a.protocol.task_pages import TaskQuery, list_tasks
    from ledger.agents.callers import Caller
    from ledger.models import Agent

    bench = Agent.objects.get(tenant="bench", slug="bench")
    own = Caller(bench.principal, "bench", frozenset({"submit"}))
    whole = Caller(bench.principal, "bench", frozenset({"submit", "read_all"}))
    page = clicks.facts()["page"]
    return {
        "A2A, list": lambda: list_tasks(TaskQuery(), own),
        "A2A, deep": lambda: list_tasks(TaskQuery(page_token=page), own),
        "A2A, list of the tenant": lambda: list_tasks(TaskQuery(), whole),
        "A2A, rare state": lambda: list_tasks(TaskQuery(state="failed"), own),
        "A2A, open": lambda: list_tasks(TaskQuery(state="working"), own),
        "A2A, context": lambda: list_tasks(TaskQuery(context_id="context-7"), own),
    }


# --- statements and their plans -------------------------------------------------------------------


@contextmanager
def _heard() -> Iterator[list[Statement]]:
    """The statements of the block that look for rows."""
    from django.db import connection

    statements: list[Statement] = []

    def listen(execute: Any, sql: str, parameters: Any, many: bool, context: Any) -> Any:
        if sql.lstrip().startswith((*READS, *WRITES)) and "advisory" not in sql:
            statements.append((sql, parameters))
        return execute(sql, parameters, many, context)

    with connection.execute_wrapper(listen):
        yield statements


def _work_of(statements: list[Statement], sizes: dict[str, int]) -> Work:
    work = Work()
    for sql, parameters in statements:
        nodes = list(_nodes(_plan(sql, parameters)))
        read = sum(_rows_read(node) for node in nodes)
        work.rows += read
        whole = {
            node["Relation Name"]
            for node in nodes
            if node["Node Type"] == "Seq Scan" and sizes.get(node["Relation Name"], 0) > LARGE
        }
        work.faults += [f"reads all of {table}: {sql[:3000]}" for table in sorted(whole)]
        if read > MOST_READ:
            work.faults.append(f"reads {read:,} rows: {sql[-600:]}")
    return work


def _plan(sql: str, parameters: Any) -> dict[str, Any]:
    """The root of its plan; what writes is not carried out a second time."""
    from django.db import connection
    from django.db.transaction import atomic

    how = "ANALYZE, TIMING OFF, " if sql.lstrip().startswith(READS) else ""
    with atomic(), connection.cursor() as cursor:  # SELECT … FOR UPDATE holds no lock afterwards
        cursor.execute(f"EXPLAIN ({how}FORMAT JSON) {sql}", parameters)
        (plan,) = cursor.fetchone()
    root: dict[str, Any] = (json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"]
    return root


def _nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for below in node.get("Plans", ()):
        yield from _nodes(below)


def _rows_read(node: dict[str, Any]) -> int:
    """Of a scan: the rows that it handed on, and those that it read in vain."""
    if "Scan" not in node["Node Type"] or node["Node Type"] in {"CTE Scan", "WorkTable Scan"}:
        return 0
    in_vain = ("Rows Removed by Filter", "Rows Removed by Index Recheck")
    rows = node.get("Actual Rows", 0) + sum(node.get(name, 0) for name in in_vain)
    return int(rows * node.get("Actual Loops", 0))


def _sizes() -> dict[str, int]:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT relname, reltuples FROM pg_class WHERE relkind = 'r'")
        return {name: int(rows) for name, rows in cursor.fetchall()}


def report(small: dict[str, Work], large: dict[str, Work]) -> int:
    """Print rows read at both sizes and every fault; how many pages have one."""
    print("\nrows and index entries read, by all statements of a page\n")
    print("| what | small | large |\n| --- | --: | --: |")
    for name, work in large.items():
        mark = " **fault**" if work.faults else ""
        print(f"| {name} | {small[name].rows:,} | {work.rows:,}{mark} |")
    bad = {name: work.faults for name, work in large.items() if work.faults}
    for name, faults in bad.items():
        for fault in faults:
            print(f"\n{name}: {fault}")
    return len(bad)
