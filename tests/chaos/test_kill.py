"""Real workers, killed -9 around the call to the outside; Redis flushed and stopped in between."""

from __future__ import annotations

import itertools
import os
from contextlib import ExitStack
from decimal import Decimal
from uuid import uuid4

import httpx
import pytest

from approvals.local import embedded_services
from ledger.models import Transaction
from ledger.principals import user
from ledger.proof.audit.verification import verify
from ledger.states import State
from ledger.transactions import coordinator
from tests.conftest import propose, seal_approver
from tests.forgery import move_deadline
from tests.processes import Product, running, until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]
ALICE, BOB = user(1, "Alice Moreau"), user(2, "Bob Tanaka")


@pytest.fixture
def product(acme):
    for person in (ALICE, BOB):
        seal_approver(person)
    with running("sandbox") as product:
        before = os.environ.get("ASSENT_SANDBOX_URL")
        os.environ["ASSENT_SANDBOX_URL"] = product.sandbox_url
        yield product
        if before is None:
            del os.environ["ASSENT_SANDBOX_URL"]
        else:
            os.environ["ASSENT_SANDBOX_URL"] = before


_numbers = itertools.count()


def a_refund() -> Transaction:
    return _approved(
        propose("refund_customer", payment_id="pay_1042", amount="12.50", reason=uuid4().hex)
    )


def a_termination() -> Transaction:
    return _approved(
        propose("terminate_cloud_instance", instance_id=f"i-4{next(_numbers):03x}", reason="idle")
    )


def _approved(row: Transaction) -> Transaction:
    for person in (ALICE, BOB)[: row.quorum]:
        row = coordinator.approve(row.pk, digest=row.intent_digest, by=person, via="web")
    return row


def fault(product: Product, path: str, mode: str, **more: object) -> None:
    answer = httpx.post(f"{product.sandbox_url}/faults", json={"path": path, "mode": mode, **more})
    answer.raise_for_status()


def state_of(row: Transaction) -> str:
    return Transaction.objects.get(pk=row.pk).state


def effects_of(product: Product, kind: str) -> int:
    return product.effects()["by_kind"].get(kind, 0)


# Where the worker is when it dies: the name of a crash point of ``ledger.execution``.
LINES = ["before claim", "after claim", "before execute", "after execute", "before record"]


@pytest.mark.parametrize("line", LINES)
def test_killing_the_worker_at_this_line_leaves_one_refund(product, line):
    product.start("worker", ASSENT_TEST_KILL_AT=line)
    row = a_refund()

    until(lambda: product.processes["worker"].poll() is not None, what="the worker kills itself")
    product.start("worker", "sweeper")
    until(lambda: state_of(row) == State.COMMITTED, what="committed after all")

    assert effects_of(product, "refund") == 1
    assert Transaction.objects.get(pk=row.pk).receipt
    verify()


@pytest.mark.parametrize("line", LINES)
def test_killing_the_worker_at_this_line_never_terminates_twice(product, line):
    product.start("worker", ASSENT_TEST_KILL_AT=line)
    row = a_termination()

    until(lambda: product.processes["worker"].poll() is not None, what="the worker kills itself")
    product.start("worker", "sweeper")
    until(lambda: state_of(row) in {State.COMMITTED, State.IN_DOUBT}, what="settled or in doubt")
    if line in {"after execute", "before record"}:
        until(lambda: state_of(row) == State.COMMITTED, what="found the receipt")

    assert effects_of(product, "termination") <= 1
    if state_of(row) == State.COMMITTED:
        assert effects_of(product, "termination") == 1
    verify()


def test_killing_the_worker_while_the_provider_is_at_work(product):
    fault(product, "/payments/refunds", "delay", seconds=3)
    product.start("worker")
    row = a_refund()

    until(lambda: effects_of(product, "refund") == 1, what="the provider has begun")
    product.kill("worker")
    product.start("worker", "sweeper")
    until(lambda: state_of(row) == State.COMMITTED, seconds=30)

    assert effects_of(product, "refund") == 1


def test_one_refund_with_a_lost_answer_is_one_entry_one_receipt_one_effect(product):
    """One planned refund, one succeeded entry, one receipt, one effect."""
    fault(product, "/payments/refunds", "drop_after_work")
    product.start("worker", "sweeper")
    row = a_refund()

    until(lambda: state_of(row) == State.COMMITTED, seconds=30)

    row = Transaction.objects.get()
    refunds = product.effects()["by_kind"]["refund"]
    assert (row.ledger_status, row.amount, refunds) == ("succeeded", Decimal("12.5"), 1)
    assert [event.kind for event in row.events.order_by("seq")] == [
        "prepared",
        "approved",
        "claimed",
        "fell_in_doubt",
        "committed",
    ]
    assert row.receipt


def test_without_redis_everything_is_carried_out_a_little_later(product):
    """Nothing listens where Redis should be: the sweeper carries the work itself."""
    product.start("sweeper", REDIS_URL="redis://127.0.0.1:1/0")
    committed, rejected = a_refund(), propose("book_flight", **_a_flight(product))
    coordinator.reject(
        rejected.pk, digest=rejected.intent_digest, by=ALICE, via="web", reason="Too early."
    )

    until(lambda: state_of(committed) == State.COMMITTED, what="committed without Redis")
    until(lambda: state_of(rejected) == State.ABORTED, what="rolled back without Redis")

    assert effects_of(product, "refund") == 1
    assert product.effects()["live_holds"] == 0


def test_flushing_redis_between_any_two_steps_loses_nothing(product):
    from ledger.foundation import doorbell

    rows = [a_refund() for _ in range(5)]
    doorbell.redis().flushall()
    product.start("worker", "sweeper")
    rows += [a_refund() for _ in range(5)]
    doorbell.redis().flushall()

    until(lambda: all(state_of(row) == State.COMMITTED for row in rows), seconds=30)

    assert effects_of(product, "refund") == 10


def test_what_nobody_decides_lapses_and_lets_go_by_itself(product):
    product.start("worker", "sweeper")
    row = propose("book_flight", **_a_flight(product))
    assert product.effects()["live_holds"] == 1

    move_deadline(row.pk, milliseconds=300)
    until(lambda: state_of(row) == State.ABORTED)

    assert Transaction.objects.get(pk=row.pk).ending == "expired"
    assert product.effects()["live_holds"] == 0


def test_of_two_sweepers_one_works_and_the_other_takes_over(product):
    product.start("sweeper", "worker")
    product.processes["first"] = product.processes.pop("sweeper")
    product.start("sweeper")
    product.kill("first")
    row = a_refund()
    from ledger.foundation import doorbell

    doorbell.redis().flushall()

    until(lambda: state_of(row) == State.COMMITTED)


def _a_flight(product: Product) -> dict[str, str]:
    return {
        "flight_id": "QX412-2027-03-15",
        "passenger": f"Ana Ruiz {uuid4().hex[:6]}",
        "max_price": "9000000",
    }


def test_redis_stopped_and_started_between_any_two_steps(product, redis):
    """Propose, stop, approve, start, propose, stop, reject, start: everything ends as decided."""
    redis.start()
    product.environment["REDIS_URL"] = redis.url
    product.start("worker", "sweeper")

    first = propose("refund_customer", payment_id="pay_1042", amount="1.00", reason=uuid4().hex)
    redis.stop()
    _approved(first)
    until(lambda: state_of(first) == State.COMMITTED, what="committed while Redis was away")

    redis.start()
    second = a_refund()
    until(lambda: state_of(second) == State.COMMITTED, seconds=30, what="committed after it came")
    seat = propose("book_flight", **_a_flight(product))
    redis.stop()
    coordinator.reject(seat.pk, digest=seat.intent_digest, by=ALICE, via="web", reason="No.")
    until(lambda: state_of(seat) == State.ABORTED, what="rolled back while Redis was away")

    assert effects_of(product, "refund") == 2
    assert product.effects()["live_holds"] == 0


@pytest.fixture
def redis(tmp_path):
    redis = StoppableRedis(tmp_path)
    yield redis
    redis.stop()


class StoppableRedis:
    """A Redis of its own, which a test may kill -9 and start again."""

    def __init__(self, folder):
        self.folder, self.stack = folder, ExitStack()

    def start(self):
        self.url = embedded_services.start_redis(self.folder, self.stack)

    def stop(self):
        self.stack.close()
        self.stack = ExitStack()
