"""Summaries by e-mail at the hours that a person chose: once each, and none about nothing."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.db.models.functions import Now
from django.utils import timezone

from approvals.models import Membership, NotificationSettings, Preferences
from approvals.notifications import mails, summaries
from ledger.models import Delivery, Event, Transaction
from ledger.transactions import coordinator
from tests.approvals.test_mail import deliver_all, server, text_of

__all__ = ["server"]
A_MINUTE, AN_HOUR = timedelta(minutes=1), timedelta(hours=1)


@pytest.fixture
def reader(server, alice_user, as_alice):
    """Alice chose a summary at eight; the last one told of everything until an hour ago."""
    User.objects.filter(pk=alice_user.pk).update(email="alice@people.example")
    as_alice.post("/account/notifications", {"waiting": "on", "summary_hour": "8"})
    rows = NotificationSettings.objects.filter(user=alice_user)
    rows.update(summary_upto=whole_second() - AN_HOUR)
    return rows


def whole_second():
    return timezone.now().replace(microsecond=0)


def come(rows, ago=timedelta(0)):
    """The hour comes, or came so long ago."""
    rows.update(summary_due_at=whole_second() - ago)
    summaries.owe_due()


def owed():
    return Delivery.objects.filter(channel="mail", recipient__startswith="summary:")


def expire(row):
    now = timezone.now()
    Transaction.objects.filter(pk=row.pk).update(
        created_at=now - timedelta(seconds=9), expires_at=now - timedelta(seconds=3)
    )
    coordinator.expire(row.pk)
    Transaction.objects.filter(pk=row.pk).update(decided_at=now - A_MINUTE)


def decide(row, by, verdict="approve"):
    reason = {} if verdict == "approve" else {"reason": "no"}
    act = getattr(coordinator, verdict)
    act(row.pk, digest=row.intent_digest, by=by, via="web", **reason)
    Transaction.objects.filter(pk=row.pk).update(decided_at=timezone.now() - A_MINUTE)


def test_a_summary_says_what_was_decided_what_expired_and_what_waits(
    reader, server, bob, a_payment
):
    for _ in range(2):
        decide(a_payment(), bob)
    decide(a_payment(), bob, "reject")
    expired, waiting = a_payment(reference="too late"), a_payment()
    expire(expired)

    come(reader)
    deliver_all()

    (letter,) = server.letters
    assert letter["Subject"] == "Summary: 1 thing waits for you"
    for kind in ("plain", "html"):
        text = text_of(letter, kind)
        assert "2 approved, 1 rejected, 1 expired" in text
        assert f"https://assent.example/transactions/{expired.pk}/" in text
        assert f"https://assent.example/transactions/{waiting.pk}/" in text
    assert "too late" in text_of(letter)
    assert letter["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"


def test_no_mail_when_there_is_nothing_to_say(reader, server):
    come(reader)
    deliver_all()

    assert owed().count() == 1
    assert server.letters == []


def test_each_decision_is_told_in_one_summary(reader, server, bob, a_payment):
    decide(a_payment(), bob)
    come(reader)
    deliver_all()

    come(reader)
    deliver_all()

    assert owed().count() == 2
    assert len(server.letters) == 1


def test_ten_of_many_are_listed(reader, server, a_payment):
    for number in range(mails.MOST_OF_SUMMARY + 2):
        expire(a_payment(reference=f"late {number}"))
        a_payment()

    come(reader)
    deliver_all()

    text = text_of(server.letters[0])
    assert text.count("https://assent.example/transactions/") == 2 * mails.MOST_OF_SUMMARY
    assert "12 things wait for you" in text
    assert "2 more are in the inbox" in text


def test_who_hides_details_reads_numbers_alone(reader, server, a_payment):
    reader.update(hides_details=True)
    expire(a_payment(reference="a secret"))
    a_payment(reference="a secret")

    come(reader)
    deliver_all()

    text = text_of(server.letters[0])
    assert "1 expired" in text
    assert "a secret" not in text


def test_an_agents_text_brings_no_link_into_a_summary(reader, server, a_payment):
    expire(a_payment(reference="https://evil.example/ <b>"))

    come(reader)
    deliver_all()

    (letter,) = server.letters
    assert "evil.example" not in text_of(letter) + text_of(letter, "html")
    assert "<b>" not in text_of(letter, "html").replace("<p><b>", "")


def test_who_lost_the_roles_is_told_nothing(reader, server, bob, a_payment):
    decide(a_payment(), bob)
    a_payment()
    come(reader)
    Membership.objects.all().delete()

    deliver_all()

    assert server.letters == []


@pytest.mark.parametrize(("ago", "letters"), [(119, 1), (121, 0)])
def test_a_summary_less_than_two_hours_late_is_sent_and_a_later_one_is_not(
    reader, server, bob, a_payment, ago, letters
):
    decide(a_payment(), bob)
    Transaction.objects.update(decided_at=timezone.now() - timedelta(hours=2.5))
    reader.update(summary_upto=whole_second() - timedelta(hours=3))

    come(reader, timedelta(minutes=ago))
    deliver_all()

    assert len(server.letters) == letters
    assert reader.get().summary_due_at > timezone.now()


def test_what_a_skipped_summary_would_have_told_is_in_the_next(reader, server, bob, a_payment):
    decide(a_payment(), bob)
    come(reader)
    pk, upto = owed().get().pk, reader.get().summary_upto
    since = upto - timedelta(hours=1)
    late = whole_second() - timedelta(hours=3)
    span = summaries.Span(since, late)
    Delivery.objects.filter(pk=pk).update(recipient=span.recipient(reader.get().pk))
    reader.update(summary_upto=late)

    deliver_all()
    assert server.letters == []
    come(reader)
    deliver_all()

    assert "1 approved" in text_of(server.letters[0])


@pytest.mark.django_db(transaction=True)
def test_of_several_sweepers_at_once_one_owes_it(reader):
    reader.update(summary_due_at=Now())
    barrier = threading.Barrier(4)
    faults = []

    def sweep():
        try:
            chosen = NotificationSettings.objects.select_related("user").get()
            barrier.wait(10)
            summaries._owe(chosen)
        except Exception as fault:
            faults.append(fault)
        finally:
            connection.close()

    threads = [threading.Thread(target=sweep) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)

    assert faults == []
    assert owed().count() == 1


@pytest.mark.parametrize(
    ("zone", "hours", "after", "due"),
    [
        ("UTC", (8, 17), "2026-01-15T07:59", "2026-01-15T08:00"),
        ("UTC", (8, 17), "2026-01-15T08:00", "2026-01-15T17:00"),
        ("UTC", (8, 17), "2026-01-15T17:00", "2026-01-16T08:00"),
        ("Europe/Zurich", (8, None), "2026-01-15T06:59", "2026-01-15T07:00"),
        ("Pacific/Auckland", (0, None), "2026-01-15T10:59", "2026-01-15T11:00"),
        # The night in which an hour is there twice, and that in which it is not there at all.
        ("Europe/Zurich", (2, None), "2026-10-25T00:00", "2026-10-26T01:00"),
        ("Europe/Zurich", (2, None), "2026-03-29T00:59", "2026-03-29T01:00"),
    ],
)
def test_a_summary_is_due_at_the_hours_of_the_person(alice_user, zone, hours, after, due):
    Preferences.objects.create(user=alice_user, time_zone=zone)
    chosen = NotificationSettings(
        user=alice_user, summary_hour=hours[0], second_summary_hour=hours[1]
    )

    next_one = summaries.next_summary(chosen, datetime.fromisoformat(after).replace(tzinfo=UTC))

    assert next_one == datetime.fromisoformat(due).replace(tzinfo=UTC)


def test_an_hour_within_quiet_hours_comes_at_their_end(alice_user):
    chosen = NotificationSettings(
        user=alice_user, summary_hour=6, quiet_from=time(22), quiet_until=time(7, 30)
    )

    next_one = summaries.next_summary(chosen, datetime(2026, 1, 15, 1, tzinfo=UTC))

    assert next_one == datetime(2026, 1, 15, 7, 30, tzinfo=UTC)


def test_another_time_zone_moves_the_hour(reader, as_alice):
    as_alice.post("/account/preferences", {"time_zone": "Asia/Tokyo"})

    due = reader.get().summary_due_at
    assert due.astimezone(ZoneInfo("Asia/Tokyo")).time() == time(8)


def test_hours_are_kept_in_order_sealed_and_ended_by_one_click(reader, as_alice, alice_user):
    assert Event.objects.filter(kind="notifications_turned_on").count() == 1

    for first, second, kept in (("17", "8", (8, 17)), ("", "9", (9, None)), ("8", "8", (8, None))):
        fields = {"summary_hour": first, "second_summary_hour": second}
        as_alice.post("/account/notifications", {"waiting": "on", **fields})
        row = reader.get()
        assert (row.summary_hour, row.second_summary_hour) == kept

    mails.stop_mails(alice_user)
    row = reader.get()
    assert (row.summary_hour, row.second_summary_hour, row.summary_due_at) == (None, None, None)


def test_one_that_was_turned_off_meanwhile_is_not_sent(reader, server, as_alice, a_payment):
    a_payment()
    come(reader)
    as_alice.post("/account/notifications", {"waiting": "on"})

    deliver_all()

    assert server.letters == []


def test_saving_other_choices_does_not_owe_a_summary_again(reader, as_alice):
    come(reader)
    upto = reader.get().summary_upto

    as_alice.post("/account/notifications", {"questions": "on", "summary_hour": "8"})

    assert reader.get().summary_upto == upto
    summaries.owe_due()
    assert owed().count() == 1


@pytest.mark.django_db
def test_an_hour_that_does_not_exist_is_refused(as_alice):
    answer = as_alice.post("/account/notifications", {"summary_hour": "24"})

    assert answer.status_code == 422
    assert not NotificationSettings.objects.filter(summary_hour=24).exists()


def test_the_setting_is_shown_only_where_mail_is_sent(alice_user, as_alice, settings):
    User.objects.filter(pk=alice_user.pk).update(email="alice@people.example")
    assert b"summary_hour" not in as_alice.get("/account/notifications").content

    settings.HAS_MAIL = True
    assert b"summary_hour" in as_alice.get("/account/notifications").content


def test_without_mail_nothing_is_owed(reader, settings):
    settings.EMAIL_URL, settings.HAS_MAIL = "", False
    reader.update(summary_due_at=Now())
    summaries._looked_at = float("-inf")

    summaries.owe_summaries()

    assert not owed().exists()
