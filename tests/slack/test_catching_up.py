"""The hard cases: messages and notes end as they should, whoever was late or had to wait."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from datetime import timedelta

import pytest
from django.db.models.functions import Now
from django.utils import timezone

from approvals.models import SlackMessage, SlackRoute, SlackWorkspace
from approvals.slack.api import credentials
from approvals.slack.messages import posting
from approvals.slack.rendering import render
from ledger.events.outbox import NotNow
from ledger.models import Delivery, DeliveryState, Event
from ledger.transactions import coordinator
from tests.fake_slack import FakeSlack
from tests.slack.conftest import catch_up, make_due, only_message, settle, state_of, thread_of

pytestmark = pytest.mark.django_db(transaction=True)


def posts(slack, method="chat.postMessage"):
    return [item for item in slack.calls if item.method == method]


def test_thread_replies_end_when_their_message_was_given_up(
    slack, team, posted, a_transaction, bob
):
    slack.fail("*", times=10_000, error="token_revoked")
    row = a_transaction()
    settle()
    coordinator.reject(row.pk, digest=row.intent_digest, by=bob, via="web", reason="no")
    settle()
    Delivery.objects.filter(recipient__startswith="copy:").update(state=DeliveryState.GIVEN_UP)

    make_due("note:")
    settle()

    assert not Delivery.objects.filter(state=DeliveryState.WAITING).exists()


def test_deliveries_that_were_put_off_are_shown_to_operators(
    slack, workspace, a_transaction, as_olga
):
    slack.fail("chat.postMessage", times=1, retry_after_s=30)
    a_transaction()
    settle()

    assert "Slack asked to wait 30 s." in as_olga.get("/ops/").content.decode()


def test_after_a_refusal_no_lost_post_is_looked_for(slack, workspace, a_transaction):
    slack.fail("chat.postMessage", times=1, retry_after_s=30)
    a_transaction()
    settle()

    catch_up()

    assert only_message(slack)
    assert posts(slack, "conversations.history") == []


def test_deliveries_of_another_day_make_nobody_wait(slack, workspace, a_transaction):
    row = a_transaction()
    event = Event.objects.get(subject=row.pk)
    Delivery.objects.bulk_create(
        Delivery(
            event=event,
            channel="slack",
            recipient=f"remind:{number}",
            next_attempt_at=timezone.now() + timedelta(days=2),
        )
        for number in range(3000)
    )
    slack.fail("chat.postMessage", times=1, retry_after_s=1)
    settle()

    owed = Delivery.objects.get(recipient__startswith="copy:")
    assert owed.next_attempt_at < timezone.now() + timedelta(seconds=3)


def test_a_worker_whose_lease_ran_out_cannot_leave_buttons_on_a_message(slack, posted, bob):
    """Stopped after it read the row, it wakes up when another has written the outcome."""
    row, message = posted("scuttle", rocket="Vega")
    stored = SlackMessage.objects.get()
    app = credentials.slack_apps()[0]

    def wake_up_too_late():
        with posting._locked(stored.pk) as late:
            stale = render(late)
            SlackMessage.objects.update(busy_until=Now() - timedelta(seconds=1))
            coordinator.reject(row.pk, digest=row.intent_digest, by=bob, via="web", reason="no")
            settle()
            assert "Rejected" in FakeSlack.plain(message)
            late.shown = ""
            posting._update(app, late, stale)

    with pytest.raises(NotNow, match="meanwhile"):
        wake_up_too_late()
    assert "approve" in str(message.blocks[-1])

    posting.refresh(stored.pk)

    assert "Rejected" in FakeSlack.plain(message)
    assert len(message.blocks[-1]["elements"]) == 1


def test_a_message_that_seemed_deleted_is_updated_again_once_it_is_clicked(
    slack, posted, served, slack_alice, bob
):
    row, message = posted()
    slack.fail("chat.update", error="message_not_found")
    coordinator.reject(row.pk, digest=row.intent_digest, by=bob, via="web", reason="no")
    settle()
    assert SlackMessage.objects.get().is_gone
    assert "approve" in str(message.blocks[-1])

    slack.click(message, "approve", slack_alice)
    settle()

    assert "Rejected" in FakeSlack.plain(message)


def test_a_bot_that_was_removed_updates_its_messages_when_it_is_back(slack, posted, bob):
    row, message = posted()
    slack.fail("chat.update", times=2, error="channel_not_found")
    coordinator.reject(row.pk, digest=row.intent_digest, by=bob, via="web", reason="no")
    settle()

    catch_up()

    assert "Rejected" in FakeSlack.plain(message)


def test_a_message_that_may_not_be_edited_shows_the_outcome_in_its_thread(slack, posted, bob):
    row, message = posted()
    slack.fail("chat.update", times=99, error="edit_window_closed")

    coordinator.reject(row.pk, digest=row.intent_digest, by=bob, via="web", reason="no")
    settle()
    catch_up()

    assert thread_of(slack, message)[0].startswith("Rejected")
    assert not Delivery.objects.filter(state=DeliveryState.WAITING).exists()


def test_a_workspace_with_a_bad_token_does_not_block_the_others(
    slack, team, posted, served, slack_alice, settings
):
    _row, message = posted()
    dead = slack.add_team("T0DEAD", "Dead")
    dead.auth_error = "token_revoked"
    settings.SLACK_BOT_TOKENS = [dead.bot_token, team.bot_token]
    credentials._team_of_token.clear()

    slack.click(message, "reject", slack_alice)

    assert len(slack.modals) == 1


def test_a_malformed_answer_of_slack_is_retried(slack, posted, served, slack_alice, settings):
    _row, message = posted()
    with nonsense() as url:
        settings.SLACK_API_URL = url
        click = slack.click(message, "reject", slack_alice)

    assert (click.status, click.is_late) == (200, False)


@contextmanager
def nonsense():
    """A server that answers everything with a JSON text."""
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    class Nonsense(BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", "4")
            self.end_headers()
            self.wfile.write(b'"ok"')

        def log_message(self, *args):
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Nonsense)
    threading.Thread(target=server.serve_forever, args=(0.02,)).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/api/"
    finally:
        server.shutdown()
        server.server_close()


def test_the_person_is_told_when_slack_does_not_say_whose_bot_it_is(
    slack, posted, served, slack_alice, workspace
):
    row, message = posted()
    SlackWorkspace.objects.update(app="")
    slack.click(message, "approve", slack_alice)
    credentials._team_of_token.clear()
    slack.fail("auth.test", times=99, status=500)

    settle()

    assert "did not tell Assent which bot" in FakeSlack.plain(slack.ephemerals[0])
    assert state_of(row) == "prepared"


def test_a_thread_reply_to_a_deleted_message_is_dropped(slack, posted, bob):
    row, _message = posted()
    slack.fail("chat.postMessage", drop="after")
    coordinator.reject(row.pk, digest=row.intent_digest, by=bob, via="web", reason="no")
    settle()
    slack.fail("conversations.replies", times=9, error="thread_not_found")

    catch_up()

    assert not Delivery.objects.filter(state=DeliveryState.WAITING).exists()


def test_nothing_is_posted_for_a_tenant_that_the_workspace_no_longer_serves(
    slack, workspace, team, a_transaction
):
    slack.add_channel(team, "C0BOSSES")
    SlackRoute.objects.update(escalate_to="C0BOSSES", escalate_after=timedelta(minutes=3))
    a_transaction()
    settle()
    slack.fail("*", times=1000, drop="before")
    a_transaction()
    settle()
    workspace.tenants.clear()
    slack.heal()

    catch_up()
    make_due("escalate:")
    catch_up()

    assert only_message(slack).channel == "C0FINANCE"
