"""What was decided while a person was away: one line of the inbox, told once."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape

import pytest
from django.db import connection
from django.db.models import F
from django.utils import timezone

from approvals.http import visits
from approvals.models import Visit
from ledger.models import Transaction
from ledger.reporting.usage import decided
from ledger.transactions import coordinator

pytestmark = pytest.mark.django_db

FRAGMENT = {"HX-Request": "true"}


def be_away(person, span=timedelta(hours=1)):
    """As if their last page had been so long ago."""
    Visit.objects.filter(user=person).update(last_at=F("last_at") - span)


@pytest.fixture
def decide(a_payment, bob):
    """Bob approves, rejects; nobody decides."""

    def decide(approved=0, rejected=0, expired=0, canceled=0):
        for _ in range(approved):
            row = a_payment()
            coordinator.approve(row.pk, digest=row.intent_digest, by=bob, via="web")
        for _ in range(rejected):
            row = a_payment()
            coordinator.reject(row.pk, digest=row.intent_digest, by=bob, via="web", reason="no")
        for _ in range(expired):
            row = a_payment()
            now = timezone.now()
            Transaction.objects.filter(pk=row.pk).update(
                created_at=now - timedelta(seconds=9), expires_at=now - timedelta(seconds=3)
            )
            coordinator.expire(row.pk)

    return decide


def line_of(page):
    text = page.content.decode()
    match = re.search(r'<p class="away quiet-text">(.*?)</p>', text, re.DOTALL)
    return " ".join(re.sub("<[^>]+>", "", match[1]).split()) if match else None


def links_of(page):
    return [
        unescape(link) for link in re.findall(r'/history/\?decided[^"]+', page.content.decode())
    ]


def test_who_comes_back_reads_what_was_decided_once(as_alice, alice_user, decide):
    as_alice.get("/")
    be_away(alice_user)
    decide(approved=2, rejected=1, expired=3)

    page = as_alice.get("/")

    assert re.fullmatch(r"Since .*\d\d:\d\d: 2 approved, 1 rejected, 3 expired", line_of(page))
    assert line_of(as_alice.get("/")) is None


def test_each_number_leads_to_as_many_rows_of_the_history(as_alice, alice_user, decide):
    decide(approved=1, rejected=1)
    as_alice.get("/")
    be_away(alice_user, timedelta(minutes=31))
    Transaction.objects.update(decided_at=F("decided_at") - timedelta(hours=1))
    decide(approved=2, rejected=1, expired=3)

    links = links_of(as_alice.get("/"))

    numbers = [len(as_alice.get(link).context["rows"]) for link in links]
    assert numbers == [2, 1, 3]
    page = as_alice.get(links[1]).content.decode()
    assert re.search(r'class="chip"[^>]*>Rejected since .*\d\d:\d\d<', page)


def test_a_short_absence_and_a_quiet_one_are_not_told(as_alice, alice_user, decide):
    as_alice.get("/")
    be_away(alice_user, timedelta(minutes=29))
    decide(approved=1)
    assert line_of(as_alice.get("/")) is None

    be_away(alice_user, timedelta(hours=5))
    Transaction.objects.update(decided_at=F("decided_at") - timedelta(hours=9))
    assert line_of(as_alice.get("/")) is None


def test_an_item_that_is_opened_first_does_not_hide_the_line(
    as_alice, alice_user, decide, a_payment
):
    as_alice.get("/")
    be_away(alice_user)
    decide(rejected=1)

    as_alice.get(f"/transactions/{a_payment().pk}/")

    assert line_of(as_alice.get("/")).endswith(": 1 rejected")


def test_what_an_open_page_asks_for_by_itself_is_no_visit(as_alice, alice_user, decide):
    as_alice.get("/")
    be_away(alice_user)
    decide(approved=1)
    before = Visit.objects.get().last_at

    for path in ("/", "/rows?id=1", "/account/notifications/due"):
        as_alice.get(path, headers=FRAGMENT)
        as_alice.get("/rows?id=1")

    assert Visit.objects.get().last_at == before
    assert line_of(as_alice.get("/")).endswith(": 1 approved")


def test_the_first_visit_tells_nothing(as_alice, decide):
    decide(approved=1)

    assert line_of(as_alice.get("/")) is None


def test_decisions_of_another_tenant_are_not_counted(as_carol, carol_user, decide):
    as_carol.get("/")
    be_away(carol_user)
    decide(approved=1)

    assert line_of(as_carol.get("/")) is None


def test_a_visit_is_written_at_most_once_a_minute(as_alice, alice_user):
    as_alice.get("/")
    before = Visit.objects.get().last_at
    as_alice.get("/history/")
    assert Visit.objects.get().last_at == before

    be_away(alice_user, visits.NOTED_EVERY * 2)
    as_alice.get("/history/")

    assert Visit.objects.get().last_at > before - visits.NOTED_EVERY


def test_beyond_what_is_counted_the_line_has_one_number(as_alice, alice_user, decide, monkeypatch):
    monkeypatch.setattr(decided, "MOST", 3)
    as_alice.get("/")
    be_away(alice_user)
    decide(approved=4)

    page = as_alice.get("/")

    assert line_of(page).endswith(": 3 decisions or more")
    assert len(as_alice.get(links_of(page)[0]).context["rows"]) == 3


def test_what_was_decided_is_read_from_an_index(as_alice, decide):
    decide(approved=1)
    since = timezone.now() - timedelta(hours=1)
    values = [["acme"], since, None, decided.MOST, decided.MOST]

    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute(f"EXPLAIN {decided._NEWEST}", values)
        plan = "\n".join(line for (line,) in cursor.fetchall())

    assert "ledger_tx_decided" in plan
