"""Questions of agents in Slack: choices as buttons, a form in a modal, errors where they belong."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.db.models.functions import Now

from a2a import tasks
from a2a.doors.git_bus.models import BusRequest, GitBus, Progress
from a2a.models import Question, Task
from a2a.tasks import questions
from a2a.tasks.questions import lapse
from approvals.models import SlackMessage
from approvals.presentation.forms import values
from approvals.presentation.forms.fields import answer_form
from approvals.slack.messages.channel import SlackChannel
from approvals.slack.rendering import modals
from ledger.events import outbox
from ledger.models import Agent, Event
from tests.fake_slack import FakeSlack
from tests.slack.conftest import only_message, route, settle, thread_of

pytestmark = pytest.mark.django_db(transaction=True)

DATES = {"enum": ["Monday", "Tuesday"]}
FORM = {
    "type": "object",
    "properties": {
        "date": {"enum": ["Monday", "Tuesday"], "title": "Which day?"},
        "rooms": {"type": "array", "items": {"enum": ["A", "B", "C"]}, "minItems": 2},
        "people": {"type": "integer", "minimum": 2},
        "catering": {"type": "boolean"},
        "note": {"type": "string", "maxLength": 20},
        "details": {"type": "string"},
    },
    "required": ["date", "rooms", "people", "catering"],
}


@pytest.fixture
def asked(slack, workspace, a_claimed_task, worker):
    def ask(text="Which date is right?", **shown_text):
        task = a_claimed_task()
        question = questions.ask(
            task.pk,
            agent=worker.principal,
            fencing_token=task.fencing_token,
            text=text,
            via="api",
            **shown_text,
        )
        settle()
        return question, slack.messages[-1]

    return ask


def labels(message):
    return [item["text"]["text"] for item in message.blocks[-1]["elements"]]


def ephemeral_text(slack):
    (only,) = slack.ephemerals
    return FakeSlack.plain(only)


def test_choices_are_buttons_and_one_click_answers(slack, served, asked, slack_alice, alice):
    question, message = asked(form=DATES)
    assert labels(message) == ["Monday", "Tuesday", "Open"]
    assert "Archivist asks" in FakeSlack.plain(message)

    slack.click(message, "choose.1", slack_alice)
    settle()

    question.refresh_from_db()
    assert (question.state, question.answer) == ("answered", "Tuesday")
    assert (question.answered_by, question.answered_via) == (str(alice), "slack")
    assert "Answered by Alice Moreau in Slack" in FakeSlack.plain(message)
    assert labels(message) == ["Open"]
    assert thread_of(slack, message) == ["Answered\n by Alice Moreau in Slack\nAnswer\nTuesday"]


def test_yes_and_no_are_buttons(slack, served, asked, slack_alice):
    question, message = asked(form={"type": "boolean"})

    slack.click(message, "choose.1", slack_alice)
    settle()

    question.refresh_from_db()
    assert question.answer is False


LABELS = {"date": "Which day?"}


def field_of(modal, name):
    """The block of a field, found as a person finds it: by its label."""
    label = LABELS.get(name, name.capitalize())
    return next(
        item["block_id"]
        for item in modal.view["blocks"]
        if item.get("label", {}).get("text") == label
    )


def filled(modal, **shown_text):
    return {(field_of(modal, name), "answer"): value for name, value in shown_text.items()}


def test_a_form_becomes_a_modal_and_its_answer_has_the_shape_of_the_schema(
    slack, served, asked, slack_alice
):
    question, message = asked(form=FORM)
    assert labels(message) == ["Answer…", "Open"]

    slack.click(message, "answer", slack_alice)
    (modal,) = slack.modals
    assert "One moment…" in FakeSlack.plain(modal)
    settle()
    assert "Which day?" in FakeSlack.plain(modal)

    slack.submit(
        modal,
        filled(modal, date="1", rooms=["0", "2"], people="3", catering="true", note="quiet"),
        slack_alice,
    )
    settle()

    question.refresh_from_db()
    assert modal.is_closed
    assert question.answer == {
        "date": "Tuesday",
        "rooms": ["A", "C"],
        "people": 3,
        "catering": True,
        "note": "quiet",
    }


def test_what_does_not_fit_is_said_at_its_field_in_the_modal(slack, served, asked, slack_alice):
    question, message = asked(form=FORM)
    slack.click(message, "answer", slack_alice)
    settle()
    (modal,) = slack.modals

    slack.submit(
        modal,
        filled(modal, date="0", rooms=["0"], people="1", catering="false", note="x" * 21),
        slack_alice,
    )

    assert set(modal.errors) == {field_of(modal, name) for name in ("rooms", "people", "note")}
    assert not modal.is_closed
    settle()
    question.refresh_from_db()
    assert question.state == "open"


def test_any_text_is_a_modal_with_one_input(slack, served, asked, slack_alice):
    question, message = asked()
    slack.click(message, "answer", slack_alice)
    settle()

    slack.submit(slack.modals[0], {("field.0", "answer"): "The second one."}, slack_alice)
    settle()

    question.refresh_from_db()
    assert question.answer == "The second one."


def test_a_form_that_no_modal_can_hold_is_answered_on_the_desk(slack, served, asked, slack_alice):
    many = {f"field {number}": {"type": "string"} for number in range(60)}
    question, message = asked(form={"type": "object", "properties": many})

    slack.click(message, "answer", slack_alice)
    settle()

    shown_text = FakeSlack.plain(slack.modals[0])
    assert "Slack cannot show this form whole" in shown_text
    assert (
        slack.modals[0]
        .view["blocks"][-1]["elements"][0]["url"]
        .endswith(f"/questions/{question.pk}/")
    )


@pytest.mark.parametrize(
    "form",
    [
        {"enum": [f"choice {number} {'x' * 200}" for number in range(100)]},
        {"enum": [f"choice {number}" for number in range(101)]},
        {"enum": ["", " ", "\n", "<!here>", "a" * 5000]},
        {"type": "array", "items": {"enum": list(range(11))}},
        {"type": "object", "properties": {"": {"type": "string"}, "x" * 5000: {"enum": [1]}}},
        {"type": "object", "properties": {"a": {"type": "number", "default": 1.5}}},
        {"type": "string", "default": "y" * 10_000, "title": "t" * 9000, "description": "d" * 9000},
        {"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {}}}}},
        {"oneOf": [{"const": {"deep": [1]}, "title": ""}, {"const": None, "title": "None"}]},
        {"type": "integer", "default": "many"},
        {"type": "integer", "default": 1.5},
        {"type": "number", "default": [1] * 90},
        {"type": "integer", "maximum": 2**63 - 1},
        {"type": "number", "maximum": 1e300},
    ],
)
def test_no_form_can_break_a_modal_or_a_message(slack, served, asked, slack_alice, form):
    _, message = asked(form=form, text="<!channel> " + "long " * 1900)

    if "answer" in {item["action_id"] for item in message.blocks[-1]["elements"]}:
        slack.click(message, "answer", slack_alice)
        settle()
        (modal,) = slack.modals
        assert "One moment" not in FakeSlack.plain(modal)
        assert FakeSlack.mentions_in(modal) == []
    assert FakeSlack.mentions_in(message) == []
    assert not slack.ephemerals


@pytest.mark.parametrize(
    "choices",
    [["x" * 80 + "yes", "x" * 80 + "no"], ["Yes", "Yes "], ["", " "], ["😀" * 50 + "a", "b"]],
)
def test_choices_that_would_look_alike_or_be_cut_are_made_on_the_desk(
    slack, served, asked, slack_alice, choices
):
    _, message = asked(form={"enum": choices})
    assert labels(message) == ["Answer…", "Open"]

    slack.click(message, "answer", slack_alice)
    settle()

    assert "Slack cannot show this form whole" in FakeSlack.plain(slack.modals[0])


def test_who_may_not_answer_is_told_in_the_modal(slack, served, asked, slack_alice):
    _, message = asked(may_answer=["operator"])

    slack.click(message, "answer", slack_alice)
    settle()

    assert "You may not answer it" in FakeSlack.plain(slack.modals[0])
    assert not Question.objects.exclude(state="open").exists()


def test_a_stranger_answers_nothing(slack, served, asked, mallory):
    question, message = asked(form=DATES)

    slack.click(message, "choose.0", mallory)
    settle()

    question.refresh_from_db()
    assert question.state == "open"
    assert "does not know who you are" in ephemeral_text(slack)


def test_the_second_person_to_answer_is_told_who_was_faster(
    slack, served, asked, slack_alice, as_bob
):
    question, message = asked(form=DATES)
    waiting = json.loads(json.dumps(message.blocks))
    as_bob.post(f"/questions/{question.pk}/answer", {"answer": json.dumps("Monday")})

    slack.click(message, "choose.1", slack_alice, as_of=waiting)
    settle()

    question.refresh_from_db()
    assert question.answer == "Monday"
    assert "Bob Tanaka answered it" in ephemeral_text(slack)
    assert "Answered by Bob Tanaka on the desk" in FakeSlack.plain(message)


def test_a_double_answer_is_one_answer(slack, served, asked, slack_alice):
    _, message = asked(form=DATES)
    waiting = json.loads(json.dumps(message.blocks))

    for _ in range(2):
        slack.click(message, "choose.0", slack_alice, as_of=waiting)
    settle()

    assert Task.objects.get().messages.filter(message_id__startswith="answer").count() == 1
    assert "You had answered already: Monday" in ephemeral_text(slack)


def test_a_modal_submitted_too_late_is_told_so(slack, served, asked, slack_alice):
    question, message = asked()
    slack.click(message, "answer", slack_alice)
    settle()
    Question.objects.update(expires_at=Now() - timedelta(seconds=1))
    lapse(question.pk)

    slack.submit(slack.modals[0], {("field.0", "answer"): "The second one."}, slack_alice)
    settle()

    assert "Nobody answered within" in ephemeral_text(slack)
    assert "Not answered in time" in FakeSlack.plain(message)
    assert labels(message) == ["Open"]


def test_the_message_is_updated_when_the_task_ends_without_an_answer(slack, asked, orchestrator):
    question, message = asked(form=DATES)

    tasks.cancel(
        question.task_id, by=orchestrator.principal, via="a2a", reason="Not needed any more."
    )
    settle()

    assert "Withdrawn" in FakeSlack.plain(message)
    assert labels(message) == ["Open"]
    assert "Not needed any more." in thread_of(slack, message)[0]


def test_what_only_the_client_may_answer_is_not_posted(slack, workspace, a_claimed_task, worker):
    task = a_claimed_task()
    questions.ask(
        task.pk,
        agent=worker.principal,
        fencing_token=task.fencing_token,
        text="?",
        via="api",
        may_answer=["client"],
    )
    settle()

    assert slack.messages == []


def test_a_route_may_name_the_skill(slack, workspace, team, asked):
    slack.add_channel(team, "C0NOTES")
    route(workspace, channel="C0NOTES", tool="consolidate", concerns="questions")

    _, message = asked()

    assert message.channel == "C0NOTES"
    assert only_message(slack) is message


def test_evidence_is_shown_and_mentions_nobody(slack, asked):
    _, message = asked(
        evidence=[{"text": "<!here> said *Monday*"}, {"data": {"page": 3}}, {"text": "third"}]
    )

    assert "<!here> said *Monday*" in FakeSlack.plain(message)
    assert FakeSlack.mentions_in(message) == []


def test_what_is_no_number_is_said_at_its_own_field(slack, served, asked, slack_alice):
    _, message = asked(form=FORM)
    slack.click(message, "answer", slack_alice)
    settle()
    (modal,) = slack.modals
    shown_text = filled(modal, date="0", rooms=["0", "1"], people="3", catering="true")
    shown_text[field_of(modal, "people"), "answer"] = {"type": "number_input", "value": ".5"}

    slack.submit(modal, shown_text, slack_alice)

    assert set(modal.errors) == {field_of(modal, "people")}


def test_the_message_of_an_answered_question_is_updated_although_the_next_is_asked(
    slack, served, workspace, a_claimed_task, worker, alice
):
    """Whatever the order in which the couriers get to the two."""
    task = a_claimed_task()

    def ask(text):
        return questions.ask(
            task.pk,
            agent=worker.principal,
            fencing_token=task.fencing_token,
            text=text,
            form=DATES,
            via="api",
        )

    first = ask("The first?")
    settle()
    message = only_message(slack)
    questions.answer(first.pk, "Monday", by=alice, via="web")
    ask("The second?")
    for delivery_id in sorted(outbox.overdue(), reverse=True):
        outbox.deliver(delivery_id)
    settle()

    assert labels(message) == ["Open"]
    second = next(item for item in slack.messages if "The second?" in item.text)
    assert labels(second) == ["Monday", "Tuesday", "Open"]
    assert thread_of(slack, message)[0].startswith("Answered")
    assert thread_of(slack, second) == []


@pytest.fixture
def asked_twice(slack, workspace, a_claimed_task, worker):
    """Two questions of one task with the same text, as a mirror of a remote agent asks them."""

    def ask(task, **fields):
        return questions.ask(
            task.pk,
            agent=worker.principal,
            fencing_token=task.fencing_token,
            text="Which date is right?",
            is_new=True,
            via="api",
            **fields,
        )

    def ask_twice(alice, then=lambda: None):
        task = a_claimed_task()
        first = ask(task, form=DATES)
        then()
        questions.answer(first.pk, "Monday", by=alice, via="web")
        second = ask(task, form={"enum": ["June", "July"]}, ttl=timedelta(hours=3))
        settle()
        return first, second

    return ask_twice


def message_of(slack, question):
    posted = SlackMessage.objects.get(question=question)
    return next(message for message in slack.messages if message.ts == posted.ts)


def test_of_two_questions_with_one_wording_each_message_has_its_own_form_and_deadline(
    slack, served, asked_twice, alice, slack_alice
):
    first, second = asked_twice(alice, then=settle)
    older, newer = message_of(slack, first), message_of(slack, second)
    assert labels(older) == ["Open"]
    assert labels(newer) == ["June", "July", "Open"]
    assert str(int(second.expires_at.timestamp())) in json.dumps(newer.blocks)
    assert thread_of(slack, older)[0].endswith("Monday")
    assert thread_of(slack, newer) == []

    slack.click(newer, "choose.1", slack_alice)
    settle()

    first.refresh_from_db()
    second.refresh_from_db()
    assert (first.answer, second.answer) == ("Monday", "July")
    assert len(thread_of(slack, older)) == 1
    assert thread_of(slack, newer)[0].endswith("July")


def test_the_event_that_asks_is_posted_for_its_own_question_however_late_it_is_addressed(
    slack, workspace, asked_twice, alice
):
    """An outbox that is addressed after the second question was asked still posts the right one."""
    first, second = asked_twice(alice)

    asks = Event.objects.filter(subject=first.task_id, kind="task_asked").order_by("seq")
    addressed = [list(SlackChannel().address(event)) for event in asks]

    stored_messages = {
        f"copy:{stored.pk}": stored.question_id
        for stored in SlackMessage.objects.filter(question__in=[first, second])
    }
    assert [stored_messages[owed.recipient] for (owed,) in addressed] == [first.pk, second.pk]


def test_the_end_of_the_task_is_told_below_the_last_question_that_was_asked(
    slack, workspace, asked_twice, alice, orchestrator
):
    first, second = asked_twice(alice, then=settle)
    # The clocks of two events say nothing about their order.
    Question.objects.filter(pk=second.pk).update(created_at=Now() + timedelta(minutes=5))

    tasks.cancel(first.task_id, by=orchestrator.principal, via="a2a", reason="Not needed.")
    settle()

    assert not any("Not needed." in text for text in thread_of(slack, message_of(slack, first)))
    assert "Not needed." in thread_of(slack, message_of(slack, second))[0]


def test_errors_without_a_field_go_to_the_first():
    errors = [{"field": "", "message": "wrong"}, {"field": "rooms.0", "message": "no room"}]
    form = answer_form(FORM)
    values.place_misfits(form, errors)

    assert modals.errors_in(form) == {
        f"field.{number}": text
        for number, text in [(0, "wrong"), (field_number(form, "rooms"), "no room")]
    }


def field_number(form, name):
    return [field.path[-1] for field in form.fields].index(name)


def test_a_question_of_a_task_that_came_over_a_git_bus_says_how_far_its_sender_is_known(
    slack, workspace, a_claimed_task, worker, acme
):
    agent = Agent.objects.create(tenant=acme, slug="partner", name="Partner")
    bus = GitBus.objects.create(agent=agent, url="https://git.example/bus", participant="assent")
    task = a_claimed_task()
    BusRequest.objects.create(
        bus=bus,
        request_id="r-1",
        progress=Progress.TAKEN,
        task=task,
        sender_id="human_pm <!channel>",
        commit="ab" * 20,
        author="Ann <ann@partner.example>",
    )
    questions.ask(
        task.pk, agent=worker.principal, fencing_token=task.fencing_token, text="Which?", via="api"
    )
    settle()

    message = slack.messages[-1]

    text = FakeSlack.plain(message)
    assert (
        "Came through the git repository of Partner with commit ababababab; the request names"
        in text
    )
    assert "It names Ann <ann@partner.example>; nothing proves that." in text
    assert FakeSlack.mentions_in(message) == []
