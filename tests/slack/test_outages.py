"""Slack slow, down, limiting or misconfigured: decisions go on, and messages catch up."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from datetime import timedelta

import pytest
from django.db import connection
from django.db.models.functions import Now

from approvals.models import SlackClick, SlackMessage
from approvals.slack import clicks, reactions
from approvals.slack.orders import Order
from ledger import coordinator, deliveries, doorbell
from ledger.models import Decision, Delivery, DeliveryState, Event
from tests.slack.conftest import make_due, only_message, settle, state_of, thread_of
from tests.slack.fake import FakeSlack

pytestmark = pytest.mark.django_db(transaction=True)


def pass_pauses():
    """As if the time that Slack asked for had gone by."""
    for key in doorbell.redis().scan_iter("assent:slack:pause:*"):
        doorbell.redis().delete(key)


def catch_up():
    for _ in range(6):
        pass_pauses()
        make_due()
        settle()


def posts(slack, method="chat.postMessage"):
    return [one for one in slack.calls if one.method == method]


# --- Slack asks for patience -----------------------------------------------------------------


def test_what_slack_asks_for_in_patience_it_gets(slack, workspace, a_transaction):
    slack.fail("chat.postMessage", times=1, retry_after_s=30)
    a_transaction()
    a_transaction()
    settle()
    assert len(posts(slack)) == 1  # the second did not even try

    owed = Delivery.objects.filter(recipient__startswith="copy:")
    assert {(one.state, one.failures) for one in owed} == {("waiting", 0)}
    soonest = owed.order_by("next_attempt_at").first()
    assert soonest.next_attempt_at > soonest.event.at + (deliveries.FIRST_WAIT * 14)
    make_due()
    settle()
    assert len(posts(slack)) == 1

    catch_up()
    assert len([one for one in slack.messages if not one.thread_ts]) == 2
    assert not Delivery.objects.filter(state=DeliveryState.WAITING).exists()


def test_a_limit_of_one_channel_holds_up_no_other(slack, workspace, team, a_transaction):
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
    "fault", [{"status": 500}, {"drop": "before"}, {"error": "internal_error"},
              {"error": "token_revoked"}]
)  # fmt: skip
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
    assert [note.splitlines()[0] for note in thread_of(slack, message)] == ["Approved", "Committed"]


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


def test_a_note_whose_answer_got_lost_is_found_and_not_made_again(slack, posted, bob):
    row, message = posted()
    slack.fail("chat.postMessage", drop="after")

    coordinator.approve(row.pk, digest=row.intent_digest, by=bob, via="web")
    settle()
    catch_up()

    assert [note.splitlines()[0] for note in thread_of(slack, message)] == ["Approved", "Committed"]


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


def test_a_click_on_a_post_of_which_we_never_heard_counts(
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


def test_a_message_that_somebody_deleted_is_let_go_of(slack, posted, bob):
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
        failures=deliveries.MOST_ATTEMPTS, state=DeliveryState.GIVEN_UP
    )
    slack.channels[team.id, "C0FINANCE"].has_bot = True

    owed = Delivery.objects.get(recipient__startswith="copy:")
    as_olga.post(f"/ops/deliveries/{owed.pk}/again")
    settle()

    assert only_message(slack).text.startswith(row.action_summary)


def test_two_at_work_on_one_message_post_it_once(slack, workspace, a_transaction):
    row = a_transaction()
    (owed,) = deliveries.overdue()
    deliveries.deliver(owed)
    slack.fail("chat.postMessage", delay_s=0.4)
    event = Event.objects.get(subject=row.pk)
    copy = SlackMessage.objects.get()
    Delivery.objects.create(
        event=event, channel="slack", recipient=f"copy:{copy.pk} ".strip() + "0"
    )
    Delivery.objects.filter(recipient=f"copy:{copy.pk}0").update(recipient=f"copy:0{copy.pk}")
    first, second = deliveries.overdue()

    def deliver(pk):
        deliveries.deliver(pk)
        connection.close()

    at_work = threading.Thread(target=deliver, args=(first,))
    at_work.start()
    slack.wait_for(lambda: posts(slack))
    deliver(second)
    at_work.join()

    assert len(posts(slack)) == 1
    assert Delivery.objects.get(pk=second).error.startswith("Somebody else is writing")


# --- acknowledged in time --------------------------------------------------------------------


@contextmanager
def locked_tables(*more):
    """A database in which nothing moves: every table that a click needs is locked."""
    began, ends = threading.Event(), threading.Event()

    def hold():
        with connection.cursor() as cursor:
            cursor.execute(
                "BEGIN; LOCK TABLE ledger_transaction, a2a_question, approvals_slackmessage, "
                f"{', '.join(('approvals_slackworkspace', *more))} IN ACCESS EXCLUSIVE MODE"
            )
            began.set()
            ends.wait(60)
            cursor.execute("ROLLBACK")
        connection.close()

    holder = threading.Thread(target=hold)
    holder.start()
    began.wait(10)
    try:
        yield
    finally:
        ends.set()
        holder.join()


def test_slack_is_answered_in_time_whatever_the_database_does(
    slack, posted, served, slack_alice, a_claimed_task, worker
):
    from a2a import questions

    row, message = posted()
    other, other_message = posted()
    task = a_claimed_task()
    questions.ask(
        task.pk, agent=worker.principal, fencing_token=task.fencing_token, text="?", via="api"
    )
    settle()
    asked = slack.messages[-1]
    slack.click(asked, "answer", slack_alice)
    settle()

    with locked_tables():
        reactions = [
            slack.click(message, "approve", slack_alice),
            slack.click(other_message, "reject", slack_alice),
            slack.submit(slack.modals[1], {("reason", "reason"): "no"}, slack_alice),
            slack.submit(slack.modals[0], {("field.0", "answer"): "yes"}, slack_alice),
            slack.command(slack_alice),
            slack.open_home(slack_alice),
        ]
    settle()

    assert [(one.status, one.is_late) for one in reactions] == [(200, False)] * 6
    assert (state_of(row), state_of(other)) == ("committed", "aborted")
    assert "could not look just now" in reactions[4].json["text"]
    task.refresh_from_db()
    assert task.questions.get().answer == "yes"


def test_when_the_database_stays_away_the_person_is_told(
    slack, posted, served, slack_alice, monkeypatch
):
    row, message = posted()
    monkeypatch.setattr(reactions, "PATIENCE_S", (0, 0))
    options = {**connection.settings_dict["OPTIONS"], "options": "-c lock_timeout=50"}
    slack.click(message, "approve", slack_alice)
    monkeypatch.setitem(connection.settings_dict, "OPTIONS", options)
    connection.close()

    with locked_tables():
        settle_reactions()
    connection.close()
    settle_reactions("respond")

    assert "may still be carried out" in FakeSlack.plain(slack.ephemerals[0])
    monkeypatch.undo()
    assert state_of(row) == "prepared"
    SlackClick.objects.update(claimed_until=Now(), created_at=Now() - timedelta(seconds=5))
    for order in clicks.due():
        reactions.react(order)
    assert state_of(row) == "approved"


def test_when_not_even_the_click_could_be_kept_the_person_is_told_so(
    slack, posted, served, slack_alice, monkeypatch
):
    row, message = posted()
    monkeypatch.setattr(reactions, "PATIENCE_S", (0, 0))
    options = {**connection.settings_dict["OPTIONS"], "options": "-c lock_timeout=50"}

    with locked_tables("approvals_slackclick"):
        click = slack.click(message, "approve", slack_alice)
        monkeypatch.setitem(connection.settings_dict, "OPTIONS", options)
        connection.close()
        settle_reactions()
    connection.close()
    settle_reactions("respond")

    assert not click.is_late
    assert "press again if it has not changed" in FakeSlack.plain(slack.ephemerals[0])
    monkeypatch.undo()
    assert state_of(row) == "prepared"


def settle_reactions(name="react"):
    import django_rq
    from rq import SimpleWorker

    queue = django_rq.get_queue(name)
    SimpleWorker([queue], connection=queue.connection).work(burst=True, logging_level="ERROR")


def test_a_modal_that_slack_does_not_open_is_said(slack, posted, served, slack_alice):
    _row, message = posted()
    slack.fail("views.open", error="internal_error")

    click = slack.click(message, "reject", slack_alice)
    settle()

    assert (click.status, click.is_late) == (200, False)
    assert "Slack did not open the form" in FakeSlack.plain(slack.ephemerals[0])


def test_a_slow_slack_makes_no_late_answer(slack, posted, served, slack_alice):
    _row, message = posted()
    slack.fail("views.open", delay_s=2.5)

    click = slack.click(message, "reject", slack_alice)

    assert (click.status, click.is_late) == (200, False)


def test_who_cannot_be_whispered_to_gets_a_direct_message(slack, posted, served, mallory):
    _row, message = posted()
    slack.fail("chat.postEphemeral", error="user_not_in_channel")

    slack.click(message, "approve", mallory)
    settle()

    assert slack.messages[-1].channel.startswith("D")
    assert "does not know who you are" in FakeSlack.plain(slack.messages[-1])


def test_a_click_counts_although_slack_went_silent_after_it(slack, posted, served, slack_alice):
    row, message = posted()
    slack.click(message, "approve", slack_alice)
    slack.fail("*", times=1000, drop="before")

    settle()

    assert state_of(row) == "committed"
    slack.heal()
    catch_up()
    assert "Approved by Alice" in FakeSlack.plain(message)


def test_an_expired_transaction_is_rewritten_too(slack, posted):
    from django.db.models import F

    from ledger.models import Transaction

    row, message = posted()
    Transaction.objects.filter(pk=row.pk).update(
        created_at=F("created_at") - timedelta(hours=1), expires_at=Now() - timedelta(minutes=1)
    )
    coordinator.expire(row.pk)
    settle()

    assert "Expired; nobody decided in time" in FakeSlack.plain(message)
    assert message.blocks[-1]["elements"][0]["action_id"] == "open"
    assert len(message.blocks[-1]["elements"]) == 1


# --- a click is not swallowed ----------------------------------------------------------------


def test_a_click_survives_a_flush_of_redis(slack, posted, served, slack_alice):
    row, message = posted()
    slack.click(message, "approve", slack_alice)
    doorbell.redis().flushdb()
    assert clicks.due() == []  # its own job gets a moment

    SlackClick.objects.update(created_at=Now() - timedelta(seconds=5))
    (order,) = clicks.due()
    reactions.react(order)
    settle()

    assert state_of(row) == "committed"
    assert clicks.due() == []


def test_a_click_survives_the_worker_that_took_it(slack, posted, served, slack_alice):
    row, message = posted()
    slack.click(message, "approve", slack_alice)
    doorbell.redis().flushdb()
    said = SlackClick.objects.get().said
    assert clicks.claim(Order.from_text(said))  # and then it was killed
    SlackClick.objects.update(created_at=Now() - timedelta(minutes=5))

    reactions.react(said)
    assert state_of(row) == "prepared"  # somebody may still be at it
    SlackClick.objects.update(claimed_until=Now() - timedelta(seconds=1))
    for order in clicks.due():
        reactions.react(order)

    assert state_of(row) == "approved"


def test_a_click_that_is_done_is_done_once(slack, posted, served, slack_alice):
    row, message = posted()
    slack.click(message, "approve", slack_alice)
    said = SlackClick.objects.get().said
    settle()

    reactions.react(said)

    assert not slack.ephemerals
    assert state_of(row) == "committed"
