"""Slack is answered in its three seconds, and no click is swallowed, whatever else stands still."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from datetime import timedelta

import pytest
from django.db import connection
from django.db.models.functions import Now

from approvals import decisions
from approvals.models import SlackClick
from approvals.slack import clicks, reactions
from approvals.slack.orders import Order
from ledger import coordinator, doorbell
from tests.slack.conftest import catch_up, settle, state_of
from tests.slack.fake import FakeSlack

pytestmark = pytest.mark.django_db(transaction=True)


def posts(slack, method="chat.postMessage"):
    return [one for one in slack.calls if one.method == method]


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


def test_a_click_that_cannot_be_carried_out_is_said_and_not_tried_for_ever(
    slack, posted, served, slack_alice, monkeypatch
):
    _row, message = posted()

    def fail(*args, **kwargs):
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(decisions, "approve", fail)
    slack.click(message, "approve", slack_alice)
    settle()

    assert "Assent failed at this" in FakeSlack.plain(slack.ephemerals[0])
    SlackClick.objects.update(created_at=Now() - timedelta(minutes=5))
    assert clicks.due() == []


def test_a_click_waits_for_the_database_only_and_no_commit_waits_behind_it(
    slack, posted, served, slack_alice
):
    row, message = posted()
    slack.click(message, "approve", slack_alice)
    before = len(slack.calls)

    settle_reactions()

    assert state_of(row) == "approved"
    assert len(slack.calls) == before
