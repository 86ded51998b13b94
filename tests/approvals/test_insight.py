"""Insight shows what a person would count from the ledger by hand."""

from __future__ import annotations

import csv
import io
import random
import re
import statistics
from collections import Counter
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from approvals.models import Membership, Preferences
from ledger.models import Event, UsageDay, UsageDecider, UsageHour
from ledger.reporting.usage import buckets, counting, figures
from ledger.states import EventKind
from ledger.transactions import coordinator
from tests.forgery import forge
from tests.processes import until


def decide(row, verb, by):
    if verb == "approve":
        coordinator.approve(row.pk, digest=row.intent_digest, by=by, via="web")
    else:
        coordinator.reject(row.pk, digest=row.intent_digest, by=by, via="web", reason="No.")


def long_ago(row, decided_at, wait):
    """Let it have been proposed and decided then, as if the clock had been so."""
    forge("UPDATE ledger_transaction SET created_at = %s WHERE id = %s", decided_at - wait, row.pk)
    forge("UPDATE ledger_event SET at = %s WHERE subject = %s", decided_at, row.pk)


@pytest.fixture
def history(a_payment, alice, bob):
    """Decisions over three weeks; of each its time, verdict, person and wait."""
    chance = random.Random(7)
    made = []
    for number in range(40):
        row = a_payment(reference=f"h{number}", amount=str(chance.randrange(1, 900)))
        verb, by = chance.choice(["approve", "approve", "reject"]), chance.choice([alice, bob])
        decide(row, verb, by)
        at = timezone.now() - timedelta(minutes=chance.randrange(60, 21 * 1440))
        wait = timedelta(seconds=chance.uniform(0.5, 4000))
        long_ago(row, at, wait)
        made.append((at, verb, str(by), wait.total_seconds()))
    last = Event.objects.latest("pk").pk
    # It counts nothing while something else, as a vacuum, has a lock on the table of events.
    until(lambda: not counting.count_batch() and counting.counted_upto() >= last)
    return made


def table(client, name, **query):
    answer = client.get(f"/insight/{name}.csv", query)
    assert answer.status_code == 200, answer.content
    return list(csv.DictReader(io.StringIO(answer.content.decode())))


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Tokyo"])
def test_outcomes_are_counted_on_the_days_of_the_readers_zone(as_alice, alice_user, history, zone):
    Preferences.objects.update_or_create(user=alice_user, defaults={"time_zone": zone})

    rows = table(as_alice, "outcomes", days=30)

    by_hand = Counter(
        (at.astimezone(ZoneInfo(zone)).date().isoformat(), verb) for at, verb, *_ in history
    )
    shown = Counter()
    for row in rows:
        shown[row["day"], "approve"] += int(row["approved"])
        shown[row["day"], "reject"] += int(row["rejected"])
    assert len(rows) == 30
    assert +shown == by_hand


def test_days_before_the_chosen_span_are_left_out(as_alice, history):
    begin = figures.since(7, ZoneInfo("UTC"), timezone.now())

    rows = table(as_alice, "outcomes", days=7)

    assert sum(int(row["approved"]) + int(row["rejected"]) for row in rows) == sum(
        at >= begin for at, *_ in history
    )


def test_medians_by_hour_are_near_those_of_the_single_waits(as_alice, history):
    waits = {}
    for at, _verb, _by, wait in history:
        waits.setdefault(at.astimezone(UTC).hour, []).append(wait)

    rows = {int(row["hour"]): row for row in table(as_alice, "waits", days=90)}

    assert {hour for hour, row in rows.items() if row["median_s"]} == set(waits)
    for hour, single in waits.items():
        assert int(rows[hour]["decided"]) == len(single)
        assert min(single) / 1.2 - 3 <= float(rows[hour]["median_s"]) <= max(single) * 1.2 + 3
        if len(single) == 1:
            assert float(rows[hour]["median_s"]) == pytest.approx(single[0], rel=0.2, abs=3)


def test_who_waits_for_whom_counts_each_person(as_alice, history, alice, bob):
    rows = {row["decided_by"]: row for row in table(as_alice, "waiting", days=30)}

    for person, name in ((alice, "Alice Moreau"), (bob, "Bob Tanaka")):
        own = [wait for _at, _verb, by, wait in history if by == str(person)]
        assert int(rows[name]["decisions"]) == len(own)
        assert float(rows[name]["median_s"]) == pytest.approx(
            statistics.median(own), rel=0.35, abs=3
        )


def test_agents_and_tools_have_their_record(as_alice, history):
    (agent,) = table(as_alice, "agents", days=30)
    (tool,) = table(as_alice, "expiry", days=30)

    approved = sum(verb == "approve" for _at, verb, *_ in history)
    assert (agent["asked"], agent["approved"]) == ("40", str(approved))
    assert (tool["tool"], tool["ended"], tool["expired"]) == ("pay", "40", "0")


def test_quick_approvals_are_told_to_the_person_alone(as_alice, as_bob, a_payment, bob):
    for seconds in (2.4, 14.0, None):
        vote = {"by": bob, "via": "web", "seconds_shown": seconds}
        row = a_payment()
        coordinator.approve(row.pk, digest=row.intent_digest, **vote)
    counting.count_batch()

    assert (
        "1 of your 3 approvals came within 3 seconds of opening"
        in as_bob.get("/insight/").content.decode()
    )
    assert "came within 3 seconds" not in as_alice.get("/insight/").content.decode()


def test_the_sentences_say_what_expires_and_when(as_alice):
    hour = timezone.now().replace(hour=19, minute=0, second=0, microsecond=0) - timedelta(days=1)
    for kind, number in ((EventKind.APPROVED, 376), (EventKind.EXPIRED, 24)):
        UsageHour.objects.create(
            tenant="acme", hour=hour, tool="pay", kind=kind, wait=buckets.NONE, number=number
        )

    page = as_alice.get("/insight/").content.decode()

    assert "6 % expire, mostly between" in page
    begin, end = map(int, re.search(r"between (\d\d):00 and (\d\d):00", page).groups())
    assert begin <= 19 < (end or 24)


def test_an_empty_ledger_says_so(as_alice):
    answer = as_alice.get("/insight/")

    assert "No agent asked for anything in the last 30 days." in answer.content.decode()


def test_only_figures_of_tenants_with_a_managers_role_are_shown(
    as_carol, as_alice, history, vera_user, globex
):
    from tests.conftest import signed_in

    assert "No agent asked" in as_carol.get("/insight/").content.decode()
    assert "No agent asked" in as_carol.get("/insight/", {"tenant": "acme"}).content.decode()
    assert signed_in(vera_user).get("/insight/").status_code == 403
    Membership.objects.create(user=vera_user, tenant=globex, role="operator")
    assert "No agent asked" in signed_in(vera_user).get("/insight/").content.decode()


def test_each_chart_has_a_title_a_description_and_a_table(as_alice, history):
    page = as_alice.get("/insight/", {"days": "90"}).content.decode()

    drawn = re.findall(r'<svg class="bars".*?</svg>', page, re.S)
    assert len(drawn) == 2
    for svg in drawn:
        assert 'role="img"' in svg
        assert "<title>" in svg
        assert "<desc>" in svg
    assert page.count('class="figures-table"') == 7 - page.count("Nothing in these days.")
    assert "style=" not in re.sub(r"<link[^>]*>", "", page)


def test_a_file_that_does_not_exist_is_not_found(as_alice):
    assert as_alice.get("/insight/salaries.csv").status_code == 404


def test_a_name_that_a_spreadsheet_would_run_is_made_harmless(as_alice, helpdesk):
    type(helpdesk).objects.update(name="=cmd()")
    today = timezone.now().date()
    UsageDay.objects.create(
        tenant="acme", day=today, tool="pay", agent="agent:acme/helpdesk", kind="prepared",
        currency="", size=buckets.NONE, number=1,
    )  # fmt: skip

    (row,) = table(as_alice, "agents")

    assert row["agent"] == "'=cmd()"


READS_THE_LEDGER = re.compile(r'(FROM|JOIN) "?(ledger_transaction|ledger_event|ledger_decision)\b')


def test_no_query_of_the_page_reads_the_ledger_itself(as_alice, history):
    as_alice.get("/tools/")
    with CaptureQueriesContext(
        connection,
    ) as of_any_page:
        as_alice.get("/tools/")
    with CaptureQueriesContext(connection) as queries:
        as_alice.get("/insight/", {"days": "90"})

    reading = [query["sql"] for query in queries if READS_THE_LEDGER.search(query["sql"])]
    as_anywhere = [q["sql"] for q in of_any_page if READS_THE_LEDGER.search(q["sql"])]
    assert len(reading) == len(as_anywhere), reading


@pytest.mark.slow
def test_figures_are_read_by_index_where_there_are_many(as_alice):
    """With as many counts as a busy year leaves, none of the tables of counts is read whole."""
    today = timezone.now()
    hours = [today - timedelta(hours=number) for number in range(9_000)]
    UsageHour.objects.bulk_create(
        UsageHour(tenant=tenant, hour=hour, tool="pay", kind="approved", wait=9, number=1)
        for hour in hours
        for tenant in ("acme", "globex", "initech")
    )
    days = [(today - timedelta(days=number)).date() for number in range(3_000)]
    UsageDay.objects.bulk_create(
        [UsageDay(
            tenant=tenant, day=day, tool="pay", agent=f"agent:{tenant}/{name}", kind="prepared",
            currency="", size=buckets.NONE, number=1,
        )
        for day in days
        for tenant in ("acme", "globex")
        for name in ("helpdesk", "night", "day")],
        batch_size=5_000,
    )  # fmt: skip
    UsageDecider.objects.bulk_create(
        UsageDecider(
            tenant=tenant, day=day, decider=f"user:{number}", agent="agent:acme/helpdesk",
            kind="approved", wait=9, number=1,
        )
        for day in days
        for tenant in ("acme", "globex")
        for number in range(4)
    )  # fmt: skip
    with connection.cursor() as cursor:
        for model in (UsageHour, UsageDay, UsageDecider):
            cursor.execute(f"ANALYZE {model._meta.db_table}")
    with CaptureQueriesContext(connection) as queries:
        as_alice.get("/insight/", {"days": "30"})

    counted = [query["sql"] for query in queries if "ledger_usage" in query["sql"]]
    plans = []
    with connection.cursor() as cursor:
        for sql in counted:
            cursor.execute(f"EXPLAIN {sql}")
            plans.append("\n".join(line for (line,) in cursor.fetchall()))
    assert len(plans) == 3
    assert [plan for plan in plans if "Seq Scan on ledger_usage" in plan] == []


def test_days_begin_at_the_readers_midnight():
    now = datetime(2026, 11, 22, 23, 30, tzinfo=UTC)

    assert figures.since(1, ZoneInfo("Asia/Tokyo"), now) == datetime(2026, 11, 22, 15, tzinfo=UTC)


def test_it_says_what_was_signed_by_hand_in_advance_or_by_nobody(client, acme, olga_user, db):
    today = timezone.now().date()
    who = {"user:1": 5, "grant": 3, "system:policy": 2, "agent:acme/goodwill": 1}
    UsageDecider.objects.bulk_create(
        UsageDecider(
            tenant="acme",
            day=today,
            decider=decider,
            agent="agent:acme/helpdesk",
            kind="approved",
            wait=0,
            number=number,
        )
        for decider, number in who.items()
    )
    client.force_login(olga_user)

    rows = client.get("/insight/signed.csv").content.decode().splitlines()

    assert [row.rpartition(",")[2] for row in rows[1:]] == ["5", "3", "1", "2"]
