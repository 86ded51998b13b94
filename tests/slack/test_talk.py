"""In Slack people send back, ask the agent, leave a note and give time; the card says so."""

from __future__ import annotations

import pytest

from ledger.models import Event
from ledger.principals import agent
from ledger.states import Ending
from ledger.transactions import coordinator
from tests.fake_slack import FakeSlack
from tests.slack.conftest import ephemeral_text, settle, state_of, thread_of

pytestmark = pytest.mark.django_db(transaction=True)
WHAT, TEXT = ("what", "answer"), ("reason", "reason")
HELPDESK = agent("acme", "helpdesk", "Helpdesk agent")


@pytest.fixture
def told(slack, posted, served, slack_alice):
    """What Alice does with the button More… of a card."""
    row, message = posted()

    def tell(what: str, text: str = ""):
        slack.click(message, "more", slack_alice)
        answer = slack.submit(slack.modals[-1], {WHAT: what, TEXT: text}, slack_alice)
        settle()
        row.refresh_from_db()
        return answer

    return row, message, tell


def test_it_is_sent_back_with_words_for_the_agent(told, slack):
    row, message, tell = told
    tell("send_back", "48.20, please.")
    assert (row.ending, row.ending_reason) == (Ending.SENT_BACK, "48.20, please.")
    assert "Sent back" in FakeSlack.plain(message)


def test_the_agent_is_asked_and_its_answer_comes_into_the_thread(told, slack):
    row, message, tell = told
    tell("ask", "Which order is it?")
    assert row.asked_at is not None
    assert "Which order is it?" in FakeSlack.plain(message)
    coordinator.answer(row.pk, by=HELPDESK, via="api", text="Order 7.")
    settle()
    assert "Order 7." in "\n".join(thread_of(slack, message))
    assert "Which order is it?" not in FakeSlack.plain(message)


def test_a_note_and_an_hour_more(told):
    row, _message, tell = told
    before = row.expires_at
    tell("note", "Called the customer.")
    tell("hour")
    assert Event.objects.get(subject=row.pk, kind="noted").reason == "Called the customer."
    assert (row.expires_at - before).total_seconds() == 3600


def test_words_are_needed_but_for_more_time(told):
    row, _message, tell = told
    assert tell("ask", " ").json["errors"] == {"reason": "Say it in a few words."}
    assert row.asked_at is None


def test_who_keeps_the_agent_does_not_ask_for_it(told, slack, helpdesk, alice_user):
    row, _message, tell = told
    type(helpdesk).objects.filter(pk=helpdesk.pk).update(kept_by=f"user:{alice_user.pk}")
    tell("ask", "Which order is it?")
    assert row.asked_at is None
    assert "keep" in ephemeral_text(slack)


def test_the_card_says_who_changed_it(slack, posted, served, bob, slack_alice):
    row, message = posted("refund", order="o1", amount="482.00")
    coordinator.revise(
        row.pk, {"amount": "48.20"}, digest=row.intent_digest, by=bob, via="web", reason="A digit"
    )
    settle()
    shown = FakeSlack.plain(message)
    assert "Bob Tanaka\n changed it" in shown
    assert "A digit" in shown
    assert "482.00" in shown
    assert "48.20" in shown
    slack.click(message, "approve", slack_alice)
    settle()
    assert state_of(row) == "committed"
