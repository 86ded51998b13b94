"""What is counted is what the audit log says, whoever dies meanwhile."""

from __future__ import annotations

import math
import random
from collections import Counter
from datetime import UTC, timedelta
from decimal import Decimal

import psycopg
import pytest
from django.core.management import call_command
from django.db import connection
from django.db.transaction import atomic
from hypothesis import given, strategies as st

from ledger import execution
from ledger.errors import LedgerError
from ledger.models import (
    Event,
    SubjectUse,
    Transaction,
    UsageCursor,
    UsageDay,
    UsageDecider,
    UsageHour,
)
from ledger.proof import retention
from ledger.reporting.usage import buckets, counting, subjects
from ledger.states import EventKind
from ledger.transactions import coordinator
from tests.forgery import end_retention


@pytest.fixture(autouse=True)
def _often(monkeypatch):
    monkeypatch.setattr(counting, "EVERY_S", 0.0)


def counted(model, *names):
    rows = model.objects.values_list(*names, "number")
    return Counter({tuple(key): number for *key, number in rows})


def wait_of_s(seconds):
    """The bucket of a time to decide, as ``WAIT_SQL`` has it."""
    doublings = math.log2(max(seconds, buckets.FIRST_S) / buckets.FIRST_S)
    is_quick = seconds < buckets.FIRST_S
    return 0 if is_quick else 1 + math.floor(buckets.WAITS_PER_DOUBLING * doublings)


def by_hand():
    """The same figures from the events themselves, one by one."""
    days, hours, deciders = Counter(), Counter(), Counter()
    for event in Event.objects.filter(transaction__isnull=False).select_related("transaction"):
        row, at = event.transaction, event.at.astimezone(UTC)
        wait = wait_of_s((event.at - row.created_at).total_seconds())
        is_approved = event.kind == EventKind.APPROVED and row.amount is not None
        if event.kind in set(counting.COUNTED):
            currency = row.currency if is_approved else ""
            days[(row.tenant, at.date(), row.tool, row.proposed_by, event.kind, currency)] += 1
            hour = at.replace(minute=0, second=0, microsecond=0)
            hours[(row.tenant, hour, row.tool, event.kind, buckets.NONE)] += 1
            if event.kind in {"approved", "rejected"} and event.principal.startswith("user:"):
                hours[(row.tenant, hour, "", "waited", wait)] += 1
        is_counted = event.principal == "system:policy" or event.principal[:7] != "system:"
        if event.kind in set(counting.BY_DECIDER) and is_counted:
            who = (event.principal, row.proposed_by)
            deciders[(row.tenant, at.date(), *who, event.kind, wait)] += 1
    return days, hours, deciders


def as_counted():
    days = Counter()
    for key, number in counted(
        UsageDay, "tenant", "day", "tool", "agent", "kind", "currency", "size"
    ).items():
        days[key[:-1]] += number
    return (
        days,
        counted(UsageHour, "tenant", "hour", "tool", "kind", "wait"),
        counted(UsageDecider, "tenant", "day", "decider", "agent", "kind", "wait"),
    )


def some_history(propose, alice, bob, seed, steps=25):
    """Proposals and decisions in an order of chance."""
    chance = random.Random(seed)
    rows = []
    for number in range(steps):
        if not rows or chance.random() < 0.5:
            amount = str(Decimal(chance.randrange(1, 90_000)) / 100)
            rows.append(propose("pay", reference=f"{seed}-{number}", amount=amount))
            continue
        row, by = chance.choice(rows), chance.choice([alice, bob])
        verb = chance.choice(["approve", "reject", "expire", "count", "die"])
        try:
            if verb == "approve":
                coordinator.approve(row.pk, digest=row.intent_digest, by=by, via="web")
            elif verb == "reject":
                coordinator.reject(row.pk, digest=row.intent_digest, by=by, via="web", reason="No.")
            elif verb == "expire":
                Transaction.objects.filter(pk=row.pk).update(expires_at=row.created_at)
                coordinator.expire(row.pk)
            elif verb == "count":
                counting.count_batch(chance.randrange(1, 20))
            else:
                die_while_counting(chance)
        except LedgerError:
            pass


class Died(Exception):
    """The process ended between two statements."""


def die_while_counting(chance):
    """Count, and die after so many statements: what the database keeps is all or nothing."""
    left = chance.randrange(1, 8)

    def wrapper(execute, *statement):
        nonlocal left
        left -= 1
        if not left:
            raise Died
        return execute(*statement)

    try:
        with atomic(), connection.execute_wrapper(wrapper):
            counting.count_batch()
    except Died:
        pass


def own_database():
    names = ("dbname", "user", "password", "host", "port")
    parameters = connection.get_connection_params()
    return {name: parameters[name] for name in names if parameters.get(name)}


def count_all():
    while counting.count_batch():
        pass


@pytest.mark.parametrize("seed", range(6))
def test_counts_are_those_of_the_events_whatever_order_and_whoever_dies(
    a_transaction, alice, bob, seed
):
    some_history(a_transaction, alice, bob, seed)
    count_all()

    assert as_counted() == by_hand()


def test_counting_again_changes_nothing_and_counting_anew_gives_the_same(a_transaction, alice, bob):
    some_history(a_transaction, alice, bob, seed=77)
    count_all()
    before = (*as_counted(), set(SubjectUse.objects.values_list("pk", "subject")))

    count_all()
    call_command("rebuild_usage", verbosity=0)

    assert (*as_counted(), set(SubjectUse.objects.values_list("pk", "subject"))) == before
    assert UsageCursor.objects.get().upto_event == Event.objects.latest("pk").pk


def test_requests_are_counted_by_the_hour_of_their_day_too(a_transaction, alice, bob):
    some_history(a_transaction, alice, bob, seed=5)
    count_all()

    hours = Counter()
    for day, counts in UsageDay.objects.filter(kind="prepared").values_list("day", "hours"):
        hours.update({(day, hour): number for hour, number in enumerate(counts) if number})
    assert hours == Counter(
        (at.astimezone(UTC).date(), at.astimezone(UTC).hour)
        for at in Event.objects.filter(kind="prepared").values_list("at", flat=True)
    )
    assert not UsageDay.objects.exclude(kind="prepared").exclude(hours=None).exists()


@pytest.mark.django_db(transaction=True)
def test_an_event_that_is_committed_late_is_not_skipped(a_payment):
    first = a_payment()
    with psycopg.connect(**own_database()) as other:
        other.execute(
            "INSERT INTO ledger_event (subject, transaction_id, tenant, kind, to_state, principal,"
            " principal_name, via, details, reason, seq, from_state, reason_digest, previous_hash,"
            " hash) VALUES (%s, %s, 'acme', 'expired', 'rolling_back', 'system:sweeper', '',"
            " 'system', '{}', '', 0, '', '', '', '')",
            [first.pk, first.pk],
        )
        a_payment(reference="second")
        assert counting.count_batch() == 0, "a writer is at work, so nothing is settled"
        other.commit()

    count_all()

    assert as_counted() == by_hand()


@pytest.mark.django_db(transaction=True)
def test_only_one_process_counts_at_a_time(a_payment):
    a_payment()
    assert counting.count_batch() == 1
    a_payment()

    with psycopg.connect(**own_database()) as other:
        other.execute("SELECT FROM ledger_usagecursor FOR UPDATE")
        assert counting.count_batch() == 0
    assert counting.count_batch() == 1


# --- subjects -----------------------------------------------------------------------------------


def test_a_subject_is_kept_as_a_hash_and_goes_with_the_content(a_payment, alice):
    row = a_payment(reference="ana")
    coordinator.reject(row.pk, digest=row.intent_digest, by=alice, via="web", reason="No.")
    execution.roll_back(row.pk)
    count_all()
    (use,) = SubjectUse.objects.all()
    assert "ana" not in use.subject

    end_retention(use.pk)

    retention.erase_batch()

    assert Transaction.objects.get(pk=use.pk).content_erased_at is not None
    assert not SubjectUse.objects.exists()


def test_subjects_that_nobody_is_shown_any_more_are_forgotten(a_payment):
    a_payment(reference="ana")
    count_all()
    old = subjects.first_id_at(Event.objects.latest("pk").at - timedelta(days=36))
    SubjectUse.objects.create(pk=old, tenant="acme", tool="pay", subject="x")

    subjects.forget_old()

    assert SubjectUse.objects.count() == 1


# --- buckets ------------------------------------------------------------------------------------


@given(st.lists(st.floats(min_value=0, max_value=10**6), min_size=1, max_size=50))
def test_the_median_of_counted_waits_is_near_the_true_one(spans):
    counts = Counter(wait_of_s(span) for span in spans)
    true = sorted(spans)[(len(spans) - 1) // 2]

    median = buckets.wait_quantile_s(counts, 0.5)

    assert true / 1.2 - 3 <= median <= true * 1.2 + 3


@pytest.mark.parametrize("amount", ["0", "0.01", "0.99", "1", "12.34", "100", "99999999999999"])
def test_an_amount_lies_within_its_size(db, amount):
    with connection.cursor() as cursor:
        cursor.execute("SELECT " + buckets.SIZE_SQL.format(f"{amount}::numeric"))
        (size,) = cursor.fetchone()

    low, high = buckets.size_begins(size), buckets.size_ends(size)
    assert low * Decimal("0.999999") <= Decimal(amount) <= high * Decimal("1.000001")


@pytest.mark.parametrize("seconds", [0, 2.9, 3, 3.1, 59, 60, 3600, 86_400])
def test_the_database_and_python_have_the_same_buckets_of_waits(db, seconds):
    with connection.cursor() as cursor:
        cursor.execute("SELECT " + buckets.WAIT_SQL.format(f"{seconds}::numeric"))
        (wait,) = cursor.fetchone()

    assert wait == wait_of_s(seconds)


def test_a_range_is_rounded_outwards_to_two_digits():
    assert buckets.rounded_down(Decimal("12.37")) == Decimal("12")
    assert buckets.rounded_up(Decimal("59.2")) == Decimal("60")
    assert buckets.rounded_up(Decimal("1234")) == Decimal("1300")
