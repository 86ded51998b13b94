"""Slack is answered in its three seconds, and no click is swallowed, whatever else stands still."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from django.db import OperationalError, connection
from django.db.models.functions import Now

from approvals.desk import decisions
from approvals.models import SlackCommand
from approvals.slack.interactions import command_queue, handle_click
from approvals.slack.interactions.commands import Click, Reply
from approvals.slack.interactions.deadlines import READS, WRITES
from ledger.foundation import doorbell
from ledger.transactions import coordinator
from ledger.workers import jobs, sweeper
from tests import faults
from tests.fake_slack import FakeSlack
from tests.processes import until
from tests.slack.conftest import catch_up, pass_pauses, settle, state_of, try_again

pytestmark = pytest.mark.django_db(transaction=True)


def posts(slack, method="chat.postMessage"):
    return [item for item in slack.calls if item.method == method]


@contextmanager
def slow_commits():
    """A database that takes 0.8 s for the COMMIT of what is to be done in Slack."""
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE FUNCTION be_slow() RETURNS trigger LANGUAGE plpgsql"
            " AS 'BEGIN PERFORM pg_sleep(0.8); RETURN NULL; END';"
            "CREATE CONSTRAINT TRIGGER be_slow AFTER INSERT ON approvals_slackcommand"
            " DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION be_slow()"
        )
    try:
        yield
    finally:
        finish(WRITES)
        with connection.cursor() as cursor:
            cursor.execute("DROP FUNCTION be_slow CASCADE")


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
        finish(READS)


def finish(pool):
    """Wait for what had to wait: its locks would stand in the way of the clean-up."""
    barrier = threading.Barrier(pool.threads + 1)
    for _ in range(pool.threads):
        pool.start(barrier.wait)
    barrier.wait(30)


@pytest.mark.slow
def test_slack_is_answered_in_time_whatever_the_database_does(
    slack, posted, served, slack_alice, a_claimed_task, worker
):
    from a2a.tasks import questions

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

    assert [(item.status, item.is_late) for item in reactions] == [(200, False)] * 6
    assert (state_of(row), state_of(other)) == ("committed", "aborted")
    assert "could not look just now" in reactions[4].json["text"]
    task.refresh_from_db()
    assert task.questions.get().answer == "yes"


def test_when_the_database_stays_away_the_person_is_told(
    slack, posted, served, slack_alice, monkeypatch
):
    row, message = posted()
    monkeypatch.setattr(handle_click, "PATIENCE_S", (0, 0))
    options = {**connection.settings_dict["OPTIONS"], "options": "-c lock_timeout=50"}
    slack.click(message, "approve", slack_alice)
    monkeypatch.setitem(connection.settings_dict, "OPTIONS", options)
    connection.close()

    with locked_tables():
        settle_only()
    connection.close()
    settle_only("respond")

    assert "may still be carried out" in FakeSlack.plain(slack.ephemerals[0])
    monkeypatch.undo()
    assert state_of(row) == "prepared"
    try_again()
    settle_only()
    assert state_of(row) == "approved"


def test_when_not_even_the_click_could_be_stored_the_person_is_told_so(
    slack, posted, served, slack_alice, slack_bob
):
    row, message = posted()
    slack.click(message, "reject", slack_bob)

    with locked_tables("approvals_slackcommand"):
        click = slack.click(message, "approve", slack_alice)
        slack.wait_for(lambda: slack.ephemerals)
        submission = slack.submit(slack.modals[-1], {("reason", "reason"): "no"}, slack_bob)
    settle()

    assert (click.status, click.is_late, submission.is_late) == (200, False, False)
    assert "Nothing was decided: try again" in FakeSlack.plain(slack.ephemerals[0])
    assert "Nothing was decided: try again" in FakeSlack.plain(slack.modals[-1])
    assert state_of(row) == "prepared"
    slack.click(message, "approve", slack_alice)
    settle()
    assert state_of(row) == "committed"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_nothing_is_stored_after_the_person_was_told_so(slack, posted, served, slack_alice):
    """The database stands still, and then goes on."""
    row, message = posted()
    with connection.cursor() as cursor:
        cursor.execute("SHOW data_directory")
        (folder,) = cursor.fetchone()
    postgres = int(Path(folder, "postmaster.pid").read_text().split()[0])

    with faults.frozen(*faults.family(postgres)):
        click = slack.click(message, "approve", slack_alice)
        slack.wait_for(lambda: slack.ephemerals)
    finish(WRITES)

    assert not click.is_late
    assert "Nothing was decided: try again" in FakeSlack.plain(slack.ephemerals[0])
    assert not SlackCommand.objects.filter(queue=Click.queue).exists()
    assert state_of(row) == "prepared"


def test_while_it_is_unknown_whether_a_click_is_stored_nobody_is_told_that_it_is_not(
    slack, posted, served, slack_alice
):
    """The COMMIT was sent, and its answer does not come in time."""
    row, message = posted()
    with slow_commits():
        click = slack.click(message, "approve", slack_alice)
        slack.wait_for(lambda: slack.ephemerals)

    assert not click.is_late
    assert "may still be carried out" in FakeSlack.plain(slack.ephemerals[0])
    try_again()
    settle()
    assert state_of(row) == "committed"


def settle_only(queue="react"):
    from ledger.workers.queues import work_off

    work_off([queue])


def test_the_person_is_told_when_slack_does_not_open_a_modal(slack, posted, served, slack_alice):
    _row, message = posted()
    slack.fail("views.open", error="internal_error")

    click = slack.click(message, "reject", slack_alice)
    settle()

    assert (click.status, click.is_late) == (200, False)
    assert "Slack did not open the form" in FakeSlack.plain(slack.ephemerals[0])


def test_a_slow_slack_does_not_delay_the_acknowledgement(slack, posted, served, slack_alice):
    _row, message = posted()
    slack.fail("views.open", delay_s=2.5)

    click = slack.click(message, "reject", slack_alice)

    assert (click.status, click.is_late) == (200, False)


def test_without_an_ephemeral_message_the_person_gets_a_direct_message(
    slack, posted, served, mallory
):
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


def test_the_message_of_an_expired_transaction_is_updated(slack, posted):
    from django.db.models import F

    from ledger.models import Transaction

    row, message = posted()
    Transaction.objects.filter(pk=row.pk).update(
        created_at=F("created_at") - timedelta(hours=1), expires_at=Now() - timedelta(minutes=1)
    )
    coordinator.expire(row.pk)
    settle()

    assert "Expired: nobody decided in time" in FakeSlack.plain(message)
    assert message.blocks[-1]["elements"][0]["action_id"] == "open"
    assert len(message.blocks[-1]["elements"]) == 1


# --- a click is not swallowed ----------------------------------------------------------------


def test_a_click_survives_a_flush_of_redis(slack, posted, served, slack_alice):
    row, message = posted()
    slack.click(message, "approve", slack_alice)
    doorbell.redis().flushdb()
    assert command_queue.due(Click) == []  # its own job gets a moment

    SlackCommand.objects.update(due_at=Now() - timedelta(seconds=5))
    (click_id,) = command_queue.due(Click)
    handle_click.handle(click_id)
    settle()

    assert state_of(row) == "committed"
    assert command_queue.due(Click) == []


def test_a_reply_survives_a_flush_of_redis(slack, posted, served, mallory):
    _, message = posted()
    slack.click(message, "approve", mallory)
    settle_only()
    doorbell.redis().flushdb()

    try_again()
    settle()

    assert "does not know who you are" in FakeSlack.plain(slack.ephemerals[0])
    assert command_queue.due(Reply) == []


def test_a_click_survives_the_worker_that_took_it(slack, posted, served, slack_alice):
    row, message = posted()
    slack.click(message, "approve", slack_alice)
    doorbell.redis().flushdb()
    click_id = SlackCommand.objects.get().pk
    assert command_queue.claim(Click, click_id)  # and then it was killed

    handle_click.handle(click_id)
    assert state_of(row) == "prepared"  # somebody may still be at it
    try_again()
    settle_only()

    assert state_of(row) == "approved"


def test_a_click_that_is_done_is_done_once(slack, posted, served, slack_alice):
    row, message = posted()
    slack.click(message, "approve", slack_alice)
    click_id = SlackCommand.objects.get().pk
    settle()

    handle_click.handle(click_id)

    assert not slack.ephemerals
    assert state_of(row) == "committed"


def test_what_was_typed_is_erased_once_it_is_carried_out_and_the_row_after_a_day(
    slack, posted, served, slack_alice
):
    _, message = posted()
    slack.click(message, "reject", slack_alice)
    slack.submit(slack.modals[0], {("reason", "reason"): "Ms Moreau is ill"}, slack_alice)
    assert "Moreau" in SlackCommand.objects.get().command
    settle()
    assert set(SlackCommand.objects.values_list("command", flat=True)) == {""}

    command_queue.delete_old()
    assert SlackCommand.objects.exists()
    SlackCommand.objects.update(created_at=Now() - timedelta(days=1, seconds=1))
    command_queue.delete_old()
    assert not SlackCommand.objects.exists()


def test_a_click_that_fails_is_reported_and_not_tried_for_ever(
    slack, posted, served, slack_alice, monkeypatch
):
    _row, message = posted()

    def fail(*args, **kwargs):
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(decisions, "approve", fail)
    slack.click(message, "approve", slack_alice)
    settle()

    assert "Assent failed at this" in FakeSlack.plain(slack.ephemerals[0])
    SlackCommand.objects.update(due_at=Now() - timedelta(minutes=5))
    assert command_queue.due(Click) == []


def test_a_click_waits_for_the_database_only_and_no_commit_waits_behind_it(
    slack, posted, served, slack_alice
):
    row, message = posted()
    slack.click(message, "approve", slack_alice)
    before = len(slack.calls)

    settle_only()

    assert state_of(row) == "approved"
    assert len(slack.calls) == before


# --- answers to people -----------------------------------------------------------------------


def test_a_reply_that_slack_puts_off_is_posted_later(slack, posted, served, mallory):
    _, message = posted()
    for method in ("chat.postEphemeral", "chat.postMessage"):
        slack.fail(method, times=1, retry_after_s=10)
    slack.click(message, "approve", mallory)
    settle()
    assert slack.ephemerals == []

    pass_pauses()
    try_again()
    settle()

    assert "does not know who you are" in FakeSlack.plain(slack.ephemerals[0])


def test_a_form_comes_although_slack_was_silent_for_a_moment(
    slack, served, slack_alice, a_question_in_slack
):
    slack.fail("views.update", drop="before")
    slack.click(a_question_in_slack, "answer", slack_alice)
    settle()
    assert "One moment" in FakeSlack.plain(slack.modals[0])

    pass_pauses()
    try_again()
    settle()

    assert [item["type"] for item in slack.modals[0].view["blocks"]] == ["section", "input"]


def test_a_form_comes_although_slack_was_slow_to_open_it(
    slack, served, slack_alice, a_question_in_slack
):
    slack.fail("views.open", delay_s=1.8)
    click = slack.click(a_question_in_slack, "answer", slack_alice)
    settle()

    assert not click.is_late
    assert [item["type"] for item in slack.modals[0].view["blocks"]] == ["section", "input"]
    assert slack.ephemerals == []


def test_the_person_is_told_when_slack_does_not_open_a_form(
    slack, served, slack_alice, a_question_in_slack
):
    slack.fail("views.open", error="internal_error")
    slack.click(a_question_in_slack, "answer", slack_alice)
    settle()

    assert "Slack did not open the form" in FakeSlack.plain(slack.ephemerals[0])


def test_without_a_database_the_form_itself_and_the_home_tab_say_so(
    slack, served, slack_alice, a_question_in_slack, monkeypatch
):
    options = {**connection.settings_dict["OPTIONS"], "options": "-c lock_timeout=50"}
    with locked_tables():
        slack.click(a_question_in_slack, "answer", slack_alice)
        slack.open_home(slack_alice)
        monkeypatch.setitem(connection.settings_dict, "OPTIONS", options)
        connection.close()
        settle_only("respond")
    connection.close()

    assert "database does not answer" in FakeSlack.plain(slack.modals[0])
    assert "database does not answer" in FakeSlack.plain(slack.homes[slack_alice.id])
    assert slack.ephemerals == []


@pytest.fixture
def a_question_in_slack(slack, workspace, a_claimed_task, worker):
    from a2a.tasks import questions

    task = a_claimed_task()
    questions.ask(
        task.pk, agent=worker.principal, fencing_token=task.fencing_token, text="?", via="api"
    )
    settle()
    return slack.messages[-1]


def test_without_a_queue_the_sweeper_decides_and_no_decision_waits_for_slack(
    slack, posted, served, slack_alice, monkeypatch
):
    """Replies have a thread of their own there."""
    row, message = posted()
    monkeypatch.setattr(jobs, "enqueue", lambda *_: False)
    monkeypatch.setattr(sweeper, "enqueue", lambda *_: False)
    slack.click(message, "approve", slack_alice)
    slack.fail("*", times=1000, delay_s=1)
    SlackCommand.objects.update(due_at=Now() - timedelta(seconds=5))
    working = sweeper.Sweeper()

    working._enqueue_further(Click.queue)
    until(lambda: state_of(row) == "approved", what="it is decided")
    until(lambda: not working._in_hand, what="the click is carried out")
    slack.heal()
    SlackCommand.objects.update(due_at=Now() - timedelta(seconds=5))
    working._enqueue_further(Reply.queue)
    until(lambda: not working._in_hand, what="the reply is shown")

    assert command_queue.due(Reply) == []


# --- one click, several tries ----------------------------------------------------------------


def test_an_earlier_attempt_is_not_taken_for_an_earlier_click(
    slack, posted, served, slack_alice, monkeypatch
):
    """The database went away just after the decision was recorded."""
    row, message = posted()
    approve, lost = decisions.approve, []

    def approve_and_lose_the_connection(*args, **kwargs):
        found = approve(*args, **kwargs)
        if not lost:
            lost.append(True)
            raise OperationalError("the connection is lost")
        return found

    monkeypatch.setattr(decisions, "approve", approve_and_lose_the_connection)
    monkeypatch.setattr(handle_click, "PATIENCE_S", (0,))
    slack.click(message, "approve", slack_alice)
    settle()

    assert state_of(row) == "committed"
    assert slack.ephemerals == []


def test_while_it_fails_again_and_again_the_person_is_told_once(
    slack, posted, served, slack_alice, monkeypatch
):
    row, message = posted()

    def fail(*args, **kwargs):
        raise OperationalError("the disk is full")

    monkeypatch.setattr(decisions, "approve", fail)
    monkeypatch.setattr(handle_click, "PATIENCE_S", (0,))
    slack.click(message, "approve", slack_alice)
    settle()
    for _ in range(4):
        try_again()
        settle()

    assert len(slack.ephemerals) == 1
    assert SlackCommand.objects.get(queue=Click.queue).tries == 5
    monkeypatch.undo()
    try_again()
    settle_only()
    assert state_of(row) == "approved"


def test_the_same_request_again_is_the_same_click(slack, posted, served, slack_alice):
    _, message = posted()
    first = slack.click(message, "approve", slack_alice)
    slack.retry(first)
    settle()

    assert SlackCommand.objects.filter(queue=Click.queue).count() == 1
    assert slack.ephemerals == []


def test_a_click_of_another_version_is_put_aside(slack, workspace):
    row = SlackCommand.objects.create(
        id="01a1fb78-53c5-70b5-af29-92d7960ba506",
        queue=Click.queue,
        command='{"kind": "click", "from": "the future"}',
    )
    SlackCommand.objects.update(due_at=Now() - timedelta(seconds=9))
    (click_id,) = command_queue.due(Click)

    handle_click.handle(click_id)

    row.refresh_from_db()
    assert row.done_at is not None


@pytest.mark.slow
def test_hanging_reads_do_not_keep_a_click_from_being_stored(slack, posted, served, slack_alice):
    _, message = posted()
    with locked_tables():
        for _ in range(8):
            slack.command(slack_alice)
        slack.click(message, "approve", slack_alice)

        assert SlackCommand.objects.count() == 1


def test_a_person_who_cannot_be_told_without_a_database_is_told_later(
    slack, posted, served, mallory, monkeypatch
):
    """Slack asks for patience, and how many others wait cannot be counted."""
    _, message = posted()
    slack.click(message, "approve", mallory)
    settle_only()
    slack.fail("chat.postEphemeral", retry_after_s=10)
    options = {**connection.settings_dict["OPTIONS"], "options": "-c lock_timeout=50"}
    with locked_tables("ledger_delivery"):
        monkeypatch.setitem(connection.settings_dict, "OPTIONS", options)
        connection.close()
        settle_only("respond")
    connection.close()
    waiting = SlackCommand.objects.get(queue=Reply.queue, tries=1, done_at=None)
    assert json.loads(waiting.command)["kind"] == "tell"

    pass_pauses()
    try_again()
    settle()

    assert "does not know who you are" in FakeSlack.plain(slack.ephemerals[0])
