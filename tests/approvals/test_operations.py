"""Operators see what waits and what is late; Prometheus reads the same figures."""

from __future__ import annotations

import re
from datetime import timedelta

import httpx
import pytest
from django.db import connection
from django.db.models.functions import Now
from prometheus_client.parser import text_string_to_metric_families

from a2a.tasks import questions
from approvals import metrics
from ledger import execution
from ledger.models import Delivery, Event, Tenant, Transaction
from ledger.proof.log import checkpoints
from ledger.states import State
from ledger.transactions import coordinator
from tests.processes import ROOT, running, until

pytestmark = pytest.mark.django_db(transaction=True)


def test_the_page_is_for_operators(as_olga, as_alice, as_vera, a_payment):
    a_payment()

    assert "Waiting for sign-off" in as_olga.get("/ops/").content.decode()
    for client in (as_alice, as_vera):
        assert client.get("/ops/").status_code == 403
        assert "/ops/" not in client.get("/").content.decode()


def test_figures_are_those_of_the_operators_tenants(a_payment, acme, globex, alice):
    row = a_payment()
    coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web")
    execution.commit(row.pk)
    a_payment()

    ours = metrics.gathered(frozenset({"acme"}))
    theirs = metrics.gathered(frozenset({"globex"}))

    assert ours["assent_transactions"].of(state="prepared") == 1
    assert ours["assent_events_recent"].of(kind="committed") == 1
    assert ours["assent_commit_seconds"].of(quantile="0.5") >= 0
    assert ours["assent_decision_seconds"].of(quantile="0.99") > 0
    assert theirs["assent_transactions"].values == {}
    assert theirs["assent_decision_seconds"].values == {}


def test_what_is_signed_off_and_begun_by_nobody_is_late(approved, as_olga):
    row = approved()
    Transaction.objects.filter(pk=row.pk).update(decided_at=Now() - timedelta(seconds=60))

    late = metrics.gathered()["assent_work_late_seconds"]

    assert 60 <= late.of(queue="commit") < 120
    assert late.of(queue="roll_back") == late.of(queue="compensate") == 0
    page = " ".join(as_olga.get("/ops/").content.decode().split())
    assert re.search(r"the oldest has waited (6\d|1:\d\d|1\d\d)", page)
    execution.commit(row.pk)
    assert metrics.gathered()["assent_work_late_seconds"].of(queue="commit") == 0


def test_a_rollback_is_late_since_its_last_event_and_then_since_its_next_attempt(a_payment, alice):
    row = a_payment()
    coordinator.reject(row.pk, digest=row.intent_digest, by=alice, via="web", reason="no")
    rows = Transaction.objects.filter(pk=row.pk, state=State.ROLLING_BACK)

    def late() -> float:
        return metrics.gathered()["assent_work_late_seconds"].of(queue="roll_back")

    assert 0 < late() < 60
    assert rows.update(next_attempt_at=Now() - timedelta(seconds=90)) == 1
    assert 90 <= late() < 150
    rows.update(next_attempt_at=Now() + timedelta(seconds=90))
    assert late() == 0


def test_events_are_uncovered_until_a_checkpoint_is_signed(a_payment, as_olga, settings):
    checkpoints.make()
    assert metrics.gathered()["assent_events_uncovered_seconds"].value == 0
    a_payment()
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_sleep(1.1)")

    assert metrics.gathered()["assent_events_uncovered_seconds"].value > 1
    assert "events under no" not in as_olga.get("/ops/").content.decode()
    settings.CHECKPOINT_EVERY_S = 0.5
    assert "events under no" in as_olga.get("/ops/").content.decode()
    checkpoints.make()
    assert metrics.gathered()["assent_events_uncovered_seconds"].value == 0


def test_every_metric_is_on_the_page_for_operators(db):
    page = (ROOT / "docs" / "monitoring.md").read_text()

    assert set(re.findall(r"`(assent_\w+)`", page)) >= set(metrics.gathered())


@pytest.mark.slow
def test_processes_are_counted_while_they_give_signs_of_life(as_olga):
    def living() -> dict[str, float]:
        values = metrics.gathered()["assent_processes"].values
        return {kind: number for ((_, kind),), number in values.items()}

    with running("web", "commits", "courier", "sweeper") as product:
        started = ("web", "worker", "courier", "sweeper")
        until(lambda: all(living()[kind] for kind in started), 60, "each has given a sign")
        before = living()
        assert "<dt>courier</dt>" in as_olga.get("/ops/").content.decode()
        names = {f"assent {kind}" for kind in ("courier", "sweeper")}
        until(lambda: names <= _application_names(), what="their sessions bear their names")

        product.kill("commits")

        # At most: a process of an earlier test may be forgotten meanwhile.
        until(lambda: living()["worker"] < before["worker"], 60, "the worker counts no more")
        assert all(living()[kind] for kind in started if kind != "worker")


def _application_names() -> set[str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT application_name FROM pg_stat_activity")
        return {name for (name,) in cursor.fetchall()}


def test_tasks_and_questions_are_counted(a_claimed_task, worker, as_olga):
    task = a_claimed_task()
    questions.ask(
        task.pk, agent=worker.principal, fencing_token=task.fencing_token, text="?", via="api"
    )

    found = metrics.gathered()

    assert found["assent_tasks"].of(state="input-required") == 1
    assert found["assent_input_required_seconds_max"].value > 0
    assert "the oldest for" in as_olga.get("/ops/").content.decode()


def test_inputs_that_do_not_fit_are_counted_by_card_version(a_task):
    a_task(input={}, card_version="0.1.0+abc")

    found = metrics.gathered()["assent_validation_errors_recent"]
    assert found.of(card_version="0.1.0+abc") == 1


def test_a_client_that_invents_card_versions_makes_no_more_than_a_few_series(a_task):
    for number in range(14):
        a_task(input={}, card_version=f"made-up-{number}")
    a_task(input={}, card_version="made-up-3")

    found = metrics.gathered()["assent_validation_errors_recent"]

    assert len(found.values) == 11
    assert (found.of(card_version="made-up-3"), found.of(card_version="others")) == (2, 4)


def test_reads_per_completed_task(a_claimed_task, worker):
    from a2a import polling, tasks

    task = a_claimed_task()
    tasks.complete(
        task.pk,
        agent=worker.principal,
        fencing_token=task.fencing_token,
        result={"summary": "s"},
        via="api",
    )
    polling.count_reads({"acme": 6, "globex": 100})

    found = metrics.gathered(frozenset({"acme"}))
    assert found["assent_reads_per_completed_task"].value == 6


def test_prometheus_reads_it_with_the_token_only(client, settings, a_payment):
    a_payment()
    assert client.get("/metrics").status_code == 404
    settings.METRICS_TOKEN = "let-me-see"

    assert client.get("/metrics").status_code == 401
    assert client.get("/metrics", headers={"Authorization": "Bearer no"}).status_code == 401
    answer = client.get("/metrics", headers={"Authorization": "Bearer let-me-see"})

    assert answer["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    families = {
        family.name: family for family in text_string_to_metric_families(answer.content.decode())
    }
    exported = {
        name: {tuple(sorted(sample.labels.items())): sample.value for sample in family.samples}
        for name, family in families.items()
    }
    assert {family.type for family in families.values()} == {"gauge"}
    assert exported["assent_transactions"] == {(("state", "prepared"),): 1}
    assert set(exported) == set(metrics.gathered()), "figures of this desk only"
    assert set(exported["assent_queue_jobs"]) == set(metrics.gathered()["assent_queue_jobs"].values)


def test_a_label_cannot_break_the_format():
    label = 'x"} 1\ny\\'
    text = metrics.as_prometheus({"a": metrics.Metric("a", "b", {(("v", label),): 1.0})})

    (family,) = text_string_to_metric_families(text)

    assert [sample.labels for sample in family.samples] == [{"v": label}]


@pytest.mark.slow
def test_without_redis_the_page_says_so(as_olga):
    cookies = {name: cookie.value for name, cookie in as_olga.cookies.items()}
    with running("web", REDIS_URL="redis://127.0.0.1:1/0") as product:
        page = httpx.get(f"{product.url}/ops/", cookies=cookies, timeout=20)

    assert page.status_code == 200
    assert "Redis does not answer" in page.text


def test_what_was_given_up_is_tried_again_by_its_own_operator_only(
    as_olga, as_alice, a_payment, globex
):
    a_payment()
    event = Event.objects.exclude(principal="system:tests").get()
    mine = Delivery.objects.create(
        event=event, channel="webhook", recipient="x", state="given_up", error="no"
    )
    assert "Try again" in as_olga.get("/ops/").content.decode()

    assert as_alice.post(f"/ops/deliveries/{mine.pk}/again").status_code == 403
    assert as_olga.post("/ops/deliveries/999999/again").status_code == 404
    assert as_olga.post(f"/ops/deliveries/{mine.pk}/again").status_code == 302

    mine.refresh_from_db()
    assert (mine.state, mine.failures) == ("waiting", 0)
    assert Tenant.objects.count() == 2
