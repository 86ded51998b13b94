"""Calls of tools in one worker: many at once, of one tool and one tenant only so many."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from uuid import uuid4

import pytest

from ledger import execution
from ledger.execution import executions
from ledger.models import Transaction, new_id
from ledger.workers.calls import Calls
from tests.processes import until

pytestmark = pytest.mark.django_db(transaction=True)


class Work:
    """Calls that hang until they are let go."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.may_end = threading.Event()

    def __call__(self, job_id: str) -> None:
        self.begun.append(job_id)
        self.may_end.wait(30)


@pytest.fixture
def work() -> Iterator[Work]:
    work = Work()
    yield work
    work.may_end.set()


@pytest.fixture
def rows_of(a_payment, globex):
    columns = {name: value for name, value in vars(a_payment()).items() if name[0] != "_"}

    def make(tenant: str, tool: str, number: int) -> list[str]:
        rows = [
            Transaction(
                **columns
                | {"id": new_id(), "operation_key": uuid4().hex, "tenant": tenant, "tool": tool}
            )
            for _ in range(number)
        ]
        Transaction.objects.bulk_create(rows)
        return [str(row.pk) for row in rows]

    return make


def begin(calls: Calls, work: Work, job_ids: list[str]) -> None:
    calls.begin_each("commit", {job_id: partial(work, job_id) for job_id in job_ids})


def test_a_tool_has_a_quarter_of_the_places_and_a_tenant_three(rows_of, work):
    calls = Calls(8, "test")

    begin(calls, work, rows_of("acme", "one", 5))
    until(lambda: len(work.begun) == 2)
    for tool in ("two", "three", "four"):
        begin(calls, work, rows_of("acme", tool, 5))
    until(lambda: len(work.begun) == 6)
    of_globex = rows_of("globex", "one", 3)
    begin(calls, work, of_globex)

    until(lambda: len(work.begun) == 8)
    assert set(work.begun[-2:]) <= set(of_globex)


def test_what_waits_is_begun_in_turns_once_there_is_a_place(rows_of, work):
    calls = Calls(4, "test")
    first, second = rows_of("acme", "one", 3), rows_of("acme", "two", 3)
    begin(calls, work, first)
    begin(calls, work, second)
    until(lambda: len(work.begun) == 2)

    work.may_end.set()

    until(lambda: len(work.begun) == 6)
    assert set(work.begun) == {*first, *second}


def test_a_job_that_is_at_work_or_waits_is_not_begun_again(rows_of, work):
    calls = Calls(4, "test")
    at_work, waiting = rows_of("acme", "one", 2)

    for _ in range(3):
        begin(calls, work, [at_work, waiting])
    until(lambda: work.begun == [at_work])
    work.may_end.set()
    calls.stop()

    assert work.begun in ([at_work], [at_work, waiting])


def test_a_stop_waits_for_what_is_at_work_and_begins_nothing_more(rows_of, work):
    calls = Calls(4, "test")
    at_work, waiting = rows_of("acme", "one", 2)
    begin(calls, work, [at_work, waiting])
    until(lambda: work.begun == [at_work])
    put_back: list[tuple[str, str]] = []
    stopping = threading.Thread(target=lambda: put_back.extend(calls.stop()))

    stopping.start()
    until(lambda: calls._is_closed)
    begin(calls, work, rows_of("acme", "two", 1))
    assert stopping.is_alive()
    work.may_end.set()
    stopping.join(20)

    assert not stopping.is_alive()
    assert work.begun == [at_work]
    assert put_back == [("commit", waiting)]


def test_the_id_of_no_row_is_left_to_the_job(work):
    Calls(4, "test").begin_each("commit", {str(uuid4()): lambda: work.begun.append("asked")})

    assert work.begun == ["asked"]


def test_an_id_whose_job_fails_leaves_no_place_taken(rows_of, work):
    calls = Calls(4, "test")
    (row,) = rows_of("acme", "one", 1)

    def fails() -> None:
        raise ConnectionError("Redis is away while the job is put back")

    with pytest.raises(ConnectionError):
        calls.begin_each("commit", {row: partial(work, row), str(uuid4()): fails})

    until(lambda: work.begun == [row])
    work.may_end.set()
    until(lambda: not calls._in_hand)


def test_at_most_sixteen_are_claimed_together(approved, the_world, monkeypatch):
    sizes: list[int] = []
    claim_all = executions.claim_all
    monkeypatch.setattr(
        executions, "claim_all", lambda ids: sizes.append(len(ids)) or claim_all(ids)
    )
    may_return = threading.Event()
    the_world.after = [lambda: may_return.wait(20)] * 20
    calls, rows = Calls(80, "test"), [approved() for _ in range(40)]
    for first in range(0, 40, 10):
        ids = [str(row.pk) for row in rows[first : first + 10]]
        calls.begin_each("commit", {job_id: partial(execution.commit, job_id) for job_id in ids})
    until(lambda: len(the_world.effects) == 20)  # a quarter of the places

    may_return.set()

    until(lambda: len(the_world.effects) == 40)
    until(lambda: not calls._in_hand)
    assert max(sizes) <= 16


@pytest.mark.slow
def test_a_stop_waits_for_a_call_that_was_begun_beside_one_that_failed(
    approved, the_world, monkeypatch
):
    may_return = threading.Event()
    the_world.before = [lambda: may_return.wait(20)]
    why_not_to_begin, failed = executions.why_not_to_begin, approved()

    def check(row: Transaction, links: object) -> str:
        if row.pk == failed.pk:
            raise ValueError("cannot be checked")
        return why_not_to_begin(row, links)

    monkeypatch.setattr(executions, "why_not_to_begin", check)
    calls, row = Calls(16, "test"), approved("scuttle", rocket="r1")
    jobs = {str(each.pk): partial(execution.commit, each.pk) for each in (failed, row)}
    calls.begin_each("commit", jobs)
    until(lambda: not the_world.before)
    until(lambda: len(calls._in_hand) == 1)
    stopping = threading.Thread(target=calls.stop)
    stopping.start()
    stopping.join(1)

    assert stopping.is_alive()
    may_return.set()
    stopping.join(20)
    assert not stopping.is_alive()
