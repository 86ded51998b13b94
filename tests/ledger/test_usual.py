"""What an approver is told of an agent's habits, and which requests stand out from them."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from uuid import UUID, uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from hypothesis import given, strategies as st

from ledger import execution
from ledger.models import SubjectUse, Transaction, UsageDay
from ledger.reporting.usage import buckets, counting, subjects
from ledger.reporting.usage.bursts import Burst
from ledger.reporting.usage.slips import Slip
from ledger.reporting.usage.usual import Range, usual_of
from ledger.transactions import coordinator
from tests.conftest import propose

AGENT = "agent:acme/helpdesk"


@pytest.fixture(autouse=True)
def _often(monkeypatch):
    monkeypatch.setattr(counting, "EVERY_S", 0.0)


def count_all():
    while counting.count_batch():
        pass


def rejected(a_payment, alice, times, **arguments):
    """The same payment proposed and rejected, so many times."""
    for _ in range(times):
        row = a_payment(**arguments)
        coordinator.reject(row.pk, digest=row.intent_digest, by=alice, via="web", reason="No.")
        execution.roll_back(row.pk)
    count_all()


def approved(a_payment, alice, *amounts):
    for amount in amounts:
        row = a_payment(amount=str(amount))
        coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web")
    count_all()


def requests_before(days, *, decided=0, hours=None):
    """Figures of days before: one request each day at nine, unless ``hours`` says otherwise."""
    for ago in range(1, days + 1):
        day = timezone.now().date() - timedelta(days=ago)
        at = hours or [0] * 9 + [1] + [0] * 14
        _counted(day, "prepared", sum(at), hours=at)
    if decided:
        _counted(timezone.now().date() - timedelta(days=1), "approved", decided)


def _counted(day, kind, number, hours=None):
    UsageDay.objects.create(
        tenant="acme",
        day=day,
        tool="pay",
        agent=AGENT,
        kind=kind,
        size=buckets.NONE,
        number=number,
        hours=hours,
    )


def uses_of(*numbers):
    """Uses of subjects before: so many of each."""
    at = subjects.first_id_at(timezone.now() - timedelta(days=3)).int
    SubjectUse.objects.bulk_create(
        SubjectUse(pk=UUID(int=at | uuid4().int >> 48), tenant="acme", tool="pay", subject=name)
        for name, number in ((uuid4().hex, number) for number in numbers)
        for _ in range(number)
    )


# --- nothing stands out ---------------------------------------------------------------------------


def test_the_first_requests_of_an_agent_are_plain_facts(a_payment):
    first = usual_of(a_payment())
    count_all()
    second = usual_of(a_payment())

    assert (first.asked, first.is_first_of_agent, first.is_unusual) == (1, True, False)
    assert (second.asked, second.is_first_of_agent, second.is_unusual) == (2, False, False)


def test_every_request_of_a_busy_first_day_is_calm(a_payment):
    for _ in range(12):
        row = a_payment()
        count_all()
        assert not usual_of(row).is_unusual


def test_figures_are_the_same_before_and_after_the_request_is_counted(a_payment, alice):
    rejected(a_payment, alice, 2, reference="ana")
    rejected(a_payment, alice, 4, reference="somebody else")
    row = a_payment(reference="ana")

    before = usual_of(row)
    count_all()

    assert usual_of(row) == before
    assert (before.asked, before.rejected, before.approved) == (7, 6, 0)
    assert (before.subject, before.times, before.is_unusual) == ("ana", 3, False)


def test_another_tenants_requests_are_not_counted(a_payment, globex, alice):
    propose("pay", tenant="globex", reference="ana")
    rejected(a_payment, alice, 1, reference="ana")

    assert usual_of(a_payment(reference="ana")).times == 2


# --- amounts --------------------------------------------------------------------------------------


def test_an_amount_within_the_range_is_calm(a_payment, alice):
    approved(a_payment, alice, *range(20, 30))

    usual = usual_of(a_payment(amount="26"))

    assert not usual.is_unusual
    assert usual.amounts == Range(Decimal("19"), Decimal("29"), "EUR")


def test_an_amount_a_little_above_the_range_is_calm_and_one_far_beyond_is_not(a_payment, alice):
    approved(a_payment, alice, *range(20, 30))

    assert not usual_of(a_payment(amount="35")).is_unusual
    far = usual_of(a_payment(amount="90"))
    assert far.is_beyond
    assert far.is_unusual


def test_of_a_few_amounts_none_is_beyond(a_payment, alice):
    approved(a_payment, alice, *range(20, 29))

    assert not usual_of(a_payment(amount="9000")).is_beyond


sizes = st.dictionaries(st.integers(-40, 160), st.integers(1, 50), min_size=1, max_size=30)


@given(sizes)
def test_at_most_two_of_a_hundred_that_were_approved_or_one_lie_beyond(counts):
    limit = buckets.upper_limit(counts)
    beyond = sum(
        number for size, number in counts.items() if limit and buckets.size_begins(size) > limit
    )

    assert (limit is None) == (sum(counts.values()) < buckets.ENOUGH)
    assert beyond <= max(1, sum(counts.values()) / 50)


@given(sizes, st.integers(1, 40))
def test_more_than_twice_all_that_was_approved_is_beyond_whatever_a_single_one_was(counts, more):
    counts[40] = counts.get(40, 0) + buckets.ENOUGH
    highest = buckets.size_ends(max(counts))
    counts[max(counts) + more] = 1

    assert buckets.upper_limit(counts) <= highest * Decimal("2.3")


def test_amounts_of_nothing_tell_nothing_about_others():
    assert buckets.upper_limit({buckets.ZERO: 100}) is None


# --- bursts ---------------------------------------------------------------------------------------


def test_a_burst_is_told_and_an_hour_like_others_is_not(a_payment):
    requests_before(10)
    rows = [a_payment() for _ in range(11)]
    count_all()

    assert usual_of(rows[-1]).burst == Burst(11, is_within_hour=True)
    assert usual_of(rows[-1]).is_unusual
    UsageDay.objects.all().delete()
    requests_before(10, hours=[6] * 24)
    assert usual_of(rows[-1]).burst is None


def test_days_counted_by_older_versions_say_nothing_of_bursts(a_payment):
    requests_before(10)
    UsageDay.objects.update(hours=None)
    rows = [a_payment() for _ in range(11)]
    count_all()

    assert usual_of(rows[-1]).burst is None


# --- subjects -------------------------------------------------------------------------------------


def test_a_new_subject_stands_out_where_subjects_recur(a_payment):
    requests_before(2, decided=20)
    uses_of(9, 8, 7, 6)

    usual = usual_of(a_payment(reference="ana"))

    assert usual.is_new_subject
    assert usual.is_unusual


def test_where_each_request_has_a_subject_of_its_own_a_new_one_is_calm(a_payment):
    requests_before(2, decided=20)
    uses_of(*[1] * 200)

    assert not usual_of(a_payment(reference="ana")).is_unusual


def test_where_some_come_once_a_new_one_is_calm(a_payment):
    requests_before(2, decided=20)
    uses_of(*[10] * 4, *[1] * 4)

    assert not usual_of(a_payment(reference="ana")).is_unusual


def test_of_an_agent_that_asked_seldom_no_subject_is_new(a_payment):
    requests_before(2, decided=19)
    uses_of(9, 8, 7, 6)

    assert not usual_of(a_payment(reference="ana")).is_unusual


def test_a_subject_that_was_there_before_is_a_plain_fact(a_payment, alice):
    requests_before(2, decided=20)
    uses_of(9, 8, 7, 6)
    rejected(a_payment, alice, 3, reference="ana")

    usual = usual_of(a_payment(reference="ana"))

    assert (usual.times, usual.is_unusual) == (4, False)


def reads_of_subjects(row):
    with CaptureQueriesContext(connection) as queries:
        usual_of(row)
    return [each["sql"] for each in queries if 'FROM "ledger_subjectuse"' in each["sql"]]


@pytest.mark.parametrize("number", [1, 99, 150])
def test_of_a_frequent_subject_a_hundred_uses_are_read_and_no_others(a_payment, number):
    requests_before(2, decided=20)
    uses_of(*[2] * 150)
    SubjectUse.objects.bulk_create(
        SubjectUse(
            pk=subjects.first_id_at(timezone.now() - timedelta(seconds=place)),
            tenant="acme",
            tool="pay",
            subject=subjects.hash_of("acme", "pay", "ana"),
        )
        for place in range(1, number + 1)
    )
    row = a_payment(reference="ana")

    usual = usual_of(row)

    assert (usual.times, usual.is_more) == (min(number, subjects.MOST) + 1, number >= 100)
    (read,) = reads_of_subjects(row)
    assert f"LIMIT {subjects.MOST}" in read


def test_of_a_new_subject_a_hundred_uses_of_others_are_read(a_payment):
    requests_before(2, decided=20)
    uses_of(*[2] * 150)

    reads = reads_of_subjects(a_payment(reference="ana"))

    assert [f"LIMIT {subjects.MOST}" in read for read in reads] == [True, True]


def test_subjects_are_read_by_index_where_there_are_many(a_payment):
    requests_before(2, decided=20)
    uses_of(*[2] * 10_000)
    reads = reads_of_subjects(a_payment(reference="ana"))

    with connection.cursor() as cursor:
        cursor.execute("ANALYZE ledger_subjectuse")
        for read in reads:
            cursor.execute(f"EXPLAIN {read}")
            plan = "\n".join(line for (line,) in cursor.fetchall())
            assert "using ledger_subjectuse_of" in plan
            assert "Sort" not in plan


# --- slips ----------------------------------------------------------------------------------------


def with_words(a_payment, reason, summary="Pay somebody"):
    row = a_payment(amount="484.00")
    Transaction.objects.filter(pk=row.pk).update(stated_reason=reason, action_summary=summary)
    row.refresh_from_db()
    return row


def test_a_number_of_the_reason_in_place_of_the_amount_is_told(a_payment):
    row = with_words(a_payment, "The lamp broke, 48.40 back.", "Pay 484.00 EUR")

    usual = usual_of(row)

    assert usual.slip == Slip(Decimal("48.40"), is_in_reason=True)
    assert usual.is_unusual


def test_a_number_of_the_summary_in_place_of_the_amount_is_told(a_payment):
    row = with_words(a_payment, "It broke.", "Pay 48.40 EUR")

    assert usual_of(row).slip == Slip(Decimal("48.40"), is_in_reason=False)


def test_a_reason_that_names_the_amount_is_calm(a_payment):
    row = with_words(a_payment, "48.40 for the post, and 484.00 in all.", "Pay 484.00 EUR")

    assert not usual_of(row).is_unusual


def test_without_an_amount_no_number_is_compared(a_transaction):
    row = a_transaction("launch", rocket="r")
    row.stated_reason = "It costs 48.40."

    assert usual_of(row).slip is None
