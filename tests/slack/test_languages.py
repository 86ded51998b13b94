"""Slack in German: who clicked reads their own language, a channel that of its workspace."""

from __future__ import annotations

from datetime import timedelta

import pytest

from a2a.tasks import questions
from approvals.models import Preferences, SlackRoute
from approvals.slack.messages import posting
from tests.fake_slack import FakeSlack
from tests.slack.conftest import (
    buttons_of,
    ephemeral_text,
    make_due,
    only_message,
    route,
    settle,
    state_of,
    thread_of,
)

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def german_alice(slack_alice, alice_user):
    Preferences.objects.update_or_create(user=alice_user, defaults={"language": "de"})
    return slack_alice


@pytest.fixture
def german_workspace(workspace):
    type(workspace).objects.update(language="de")
    return workspace


def test_a_message_is_in_the_language_of_its_workspace(slack, german_workspace, a_transaction):
    row = a_transaction("pay", amount="4820.00")
    settle()

    message = only_message(slack)

    said = FakeSlack.plain(message)
    assert row.action_summary in said  # what agents and tools wrote stays
    assert "*Betrag*\n4.820,00\u00a0€" in said
    assert "*Läuft ab*" in said
    assert [item["text"]["text"] for item in message.blocks[-1]["elements"]] == [
        "4.820,00\u00a0€ freigeben",
        "Ablehnen…",
        "Mehr…",
        "Öffnen",
        "Freigeben und erlauben…",
        "Stoppen …",
    ]
    assert message.text.endswith(": wartet auf Freigabe")


def test_what_a_button_signs_is_the_same_in_every_language(slack, posted, workspace):
    def approve_value(message):
        return next(
            item["value"]
            for item in message.blocks[-1]["elements"]
            if item["action_id"] == "approve"
        )

    _row, message = posted()
    english = approve_value(message)

    type(workspace).objects.update(language="de")
    (stored,) = workspace.messages.all()
    posting.refresh(stored.pk)

    assert "Läuft ab" in FakeSlack.plain(only_message(slack))
    assert approve_value(only_message(slack)) == english


def test_a_direct_message_is_in_the_language_of_its_reader(
    slack, workspace, german_alice, alice_user, a_transaction
):
    SlackRoute.objects.all().delete()
    route(workspace, approver=alice_user)
    a_transaction("pay")
    settle()

    assert "Wartet auf Freigabe".lower() in only_message(slack).text.lower()
    assert "Läuft ab" in FakeSlack.plain(only_message(slack))


def test_a_question_and_its_yes_and_no_are_in_the_language_of_the_workspace(
    slack, served, german_workspace, slack_alice, a_claimed_task, worker
):
    task = a_claimed_task()
    question = questions.ask(
        task.pk,
        agent=worker.principal,
        fencing_token=task.fencing_token,
        text="Is that right?",
        form={"type": "boolean"},
        via="api",
    )
    settle()
    message = slack.messages[-1]
    assert "Archivist fragt" in FakeSlack.plain(message)
    assert "Ja\nNein\nÖffnen" in FakeSlack.plain(message)
    assert buttons_of(message) == ["choose.0", "choose.1", "open"]

    slack.click(message, "choose.0", slack_alice)
    settle()

    question.refresh_from_db()
    assert question.answer is True


def test_the_home_tab_and_the_command_are_in_the_language_of_the_person(
    slack, posted, served, german_alice
):
    posted()
    slack.open_home(german_alice)
    counted = slack.command(german_alice)
    settle()

    assert "Ein Vorgang wartet auf Sie." in FakeSlack.plain(slack.homes[german_alice.id])
    assert "Desk öffnen" in FakeSlack.plain(slack.homes[german_alice.id])
    assert counted.json["text"].startswith("Ein Vorgang wartet auf Sie.")


def test_a_modal_is_in_the_language_of_who_opened_it(slack, posted, served, german_alice):
    row, message = posted("scuttle", rocket="Vega")

    slack.click(message, "approve", german_alice)

    (modal,) = slack.modals
    assert modal.view["title"]["text"] == "Freigeben"
    assert modal.view["callback_id"] == "approve"
    assert "Zum Freigeben tippen Sie \nVega" in FakeSlack.plain(modal.view["blocks"])
    slack.submit(modal, {("typed", "typed"): "Vega"}, german_alice)
    settle()
    assert row.decisions.get().principal_name == "Alice Moreau"


def test_an_escalation_says_why_in_the_language_of_the_next_channel(
    slack, team, german_workspace, posted
):
    slack.add_channel(team, "C0BOSSES")
    SlackRoute.objects.update(escalate_to="C0BOSSES", escalate_after=timedelta(minutes=5))
    posted()
    make_due("escalate:")
    settle()

    escalated = next(item for item in slack.messages if item.channel == "C0BOSSES")
    assert "Eskaliert" in FakeSlack.plain(escalated)


def test_who_reads_german_is_refused_in_german(slack, posted, served, german_alice, workspace):
    _row, message = posted()
    workspace.tenants.clear()

    slack.click(message, "approve", german_alice)
    settle()

    assert "bedient acme nicht mehr" in ephemeral_text(slack)


def test_who_reads_german_is_told_in_german_why_a_modal_is_not_accepted(
    slack, posted, served, german_alice
):
    row, message = posted()
    slack.click(message, "reject", german_alice)

    (modal,) = slack.modals

    answer = slack.submit(modal, {("reason", "reason"): "  "}, german_alice)

    assert answer.json["errors"]["reason"].startswith("Sagen Sie, warum")
    assert state_of(row) == "prepared"


def test_a_stranger_in_an_english_workspace_reads_english(slack, posted, served, mallory):
    _row, message = posted()

    slack.click(message, "approve", mallory)
    settle()

    assert "Assent does not know who you are" in ephemeral_text(slack)


def test_a_thread_is_in_the_language_of_its_workspace(
    slack, posted, served, slack_alice, workspace
):
    type(workspace).objects.update(language="de")
    row, message = posted()

    slack.click(message, "approve", slack_alice)
    settle()

    assert state_of(row) == "committed"
    first, second = thread_of(slack, message)
    assert first == "Freigegeben\n von Alice Moreau in Slack"
    assert second.endswith(f" · Beleg \n{row.receipt}")
