"""Slack slow, down, limiting or misconfigured: decisions go on, and messages catch up."""

from __future__ import annotations

import threading

import pytest
from django.db import connection

from approvals.models import SlackMessage
from ledger.events import outbox
from ledger.models import Decision, Delivery, DeliveryState, Event
from ledger.transactions import coordinator
from tests.fake_slack import FakeSlack
from tests.slack.conftest import catch_up, make_due, only_message, settle, state_of, thread_of

pytestmark = pytest.mark.django_db(transaction=True)


def posts(slack, method="chat.postMessage"):
    return [one for one in slack.calls if one.method == method]


# --- Slack asks for patience -----------------------------------------------------------------


def test_slacks_rate_limits_are_respected(slack, workspace, a_transaction):
    slack.fail("chat.postMessage", times=1, retry_after_s=30)
    a_transaction()
    a_transaction()
    settle()
    assert len(posts(slack)) == 1  # the second did not even try

    owed = Delivery.objects.filter(recipient__startswith="copy:")
    assert {(one.state, one.failures) for one in owed} == {("waiting", 0)}
    soonest = owed.order_by("next_attempt_at").first()
    assert soonest.next_attempt_at > soonest.event.at + (outbox.BACKOFF.first * 14)
    make_due()
    settle()
    assert len(posts(slack)) == 1

    catch_up()
    assert len([one for one in slack.messages if not one.thread_ts]) == 2
    assert not Delivery.objects.filter(state=DeliveryState.WAITING).exists()


def test_the_rate_limit_of_a_channel_does_not_delay_other_channels(
    slack, workspace, team, a_transaction
):
    from tests.slack.conftest import route

    slack.add_channel(team, "C0PAY")
    route(workspace, channel="C0PAY", tool="pay")
    slack.fail("chat.postMessage", times=1, retry_after_s=30)
    a_transaction("pay")
    settle()

    a_transaction("order", item="chair")
    settle()

    assert only_message(slack).text.startswith("Order")


# --- Slack does not answer -------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault",
    [{"status": 500}, {"drop": "before"}, {"error": "internal_error"}, {"error": "token_revoked"}],
)
def test_a_decision_does_not_wait_for_slack_and_the_message_catches_up(
    slack, posted, as_bob, fault
):
    row, message = posted()
    slack.fail("*", times=1000, **fault)

    as_bob.post(f"/transactions/{row.pk}/approve", {"digest": row.intent_digest})
    settle()

    assert state_of(row) == "committed"
    assert "waits for sign-off" in message.text
    slack.heal()
    catch_up()
    assert "Approved by Bob Tanaka on the desk" in FakeSlack.plain(message)
    assert [note.splitlines()[0] for note in thread_of(slack, message)] == ["Approved", "Done"]


def test_while_slack_is_silent_not_every_message_waits_for_it(slack, workspace, a_transaction):
    slack.fail("*", times=1000, drop="before")
    for _ in range(5):
        a_transaction()
    settle()

    assert len(posts(slack)) == 1
    assert Delivery.objects.filter(failures=1).count() == 1


def test_what_is_decided_before_it_could_be_posted_is_not_posted(
    slack, workspace, a_transaction, bob
):
    slack.fail("*", times=1000, drop="before")
    row = a_transaction()
    settle()
    coordinator.reject(row.pk, digest=row.intent_digest, by=bob, via="web", reason="no")
    settle()
    slack.heal()

    catch_up()

    assert slack.messages == []
    assert not Delivery.objects.exclude(state=DeliveryState.DONE).exists()


def test_a_post_whose_answer_got_lost_is_found_and_not_made_again(slack, workspace, a_transaction):
    slack.fail("chat.postMessage", drop="after")
    a_transaction()
    settle()
    assert SlackMessage.objects.get().ts == ""

    catch_up()

    message = only_message(slack)
    assert SlackMessage.objects.get().ts == message.ts


def test_a_thread_reply_whose_answer_got_lost_is_found_and_not_made_again(slack, posted, bob):
    row, message = posted()
    slack.fail("chat.postMessage", drop="after")

    coordinator.approve(row.pk, digest=row.intent_digest, by=bob, via="web")
    settle()
    catch_up()

    assert [note.splitlines()[0] for note in thread_of(slack, message)] == ["Approved", "Done"]


def test_without_the_right_to_look_a_second_post_may_happen_and_is_dealt_with_when_clicked(
    slack, team, workspace, served, slack_alice, a_transaction
):
    team.scopes = tuple(scope for scope in team.scopes if not scope.endswith(":history"))
    slack.fail("chat.postMessage", drop="after")
    row = a_transaction()
    settle()
    catch_up()
    stray, known = [one for one in slack.messages if not one.thread_ts]
    assert SlackMessage.objects.get().ts == known.ts

    slack.click(stray, "approve", slack_alice)
    settle()
    catch_up()

    assert state_of(row) == "committed"
    assert Decision.objects.count() == 1
    for message in (stray, known):
        assert "approve" not in str(message.blocks[-1])


def test_a_click_on_a_post_whose_answer_got_lost_counts(
    slack, workspace, served, slack_alice, a_transaction
):
    slack.fail("chat.postMessage", drop="after")
    row = a_transaction()
    settle()

    slack.click(only_message(slack), "approve", slack_alice)
    settle()
    catch_up()

    assert state_of(row) == "committed"
    assert "Approved by Alice" in FakeSlack.plain(only_message(slack))


def test_a_message_that_somebody_deleted_is_not_posted_again(slack, posted, bob):
    row, message = posted()
    slack.messages.remove(message)

    coordinator.reject(row.pk, digest=row.intent_digest, by=bob, via="web", reason="no")
    settle()
    catch_up()

    assert SlackMessage.objects.get().is_gone
    assert not Delivery.objects.filter(state=DeliveryState.WAITING).exists()


def test_a_bot_that_is_not_in_the_channel_is_shown_to_operators_who_send_again(
    slack, team, workspace, a_transaction, as_olga
):
    slack.channels[team.id, "C0FINANCE"].has_bot = False
    row = a_transaction()
    settle()

    page = as_olga.get("/ops/").content.decode()
    assert "Still trying" in page
    assert "not_in_channel" in page
    assert "C0FINANCE in Acme" in page
    Delivery.objects.filter(recipient__startswith="copy:").update(
        failures=outbox.MOST_ATTEMPTS, state=DeliveryState.GIVEN_UP
    )
    slack.channels[team.id, "C0FINANCE"].has_bot = True

    owed = Delivery.objects.get(recipient__startswith="copy:")
    as_olga.post(f"/ops/deliveries/{owed.pk}/again")
    settle()

    assert only_message(slack).text.startswith(row.action_summary)


def test_two_at_work_on_one_message_post_it_once(slack, workspace, a_transaction):
    row = a_transaction()
    (owed,) = outbox.overdue()
    outbox.deliver(owed)
    slack.fail("chat.postMessage", delay_s=0.4)
    event = Event.objects.get(subject=row.pk)
    stored = SlackMessage.objects.get()
    Delivery.objects.create(
        event=event, channel="slack", recipient=f"copy:{stored.pk} ".strip() + "0"
    )
    Delivery.objects.filter(recipient=f"copy:{stored.pk}0").update(recipient=f"copy:0{stored.pk}")
    first, second = outbox.overdue()

    def deliver(pk):
        outbox.deliver(pk)
        connection.close()

    at_work = threading.Thread(target=deliver, args=(first,))
    at_work.start()
    slack.wait_for(lambda: posts(slack))
    deliver(second)
    at_work.join()

    assert len(posts(slack)) == 1
    assert Delivery.objects.get(pk=second).error.startswith("Somebody else is writing")
