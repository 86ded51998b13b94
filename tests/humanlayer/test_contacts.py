"""Human contacts on the wire: there is always a text in the end."""

from __future__ import annotations

import pytest

from a2a.models import Question, Task
from a2a.tasks import questions
from tests.humanlayer.conftest import OPTIONS

pytestmark = pytest.mark.django_db


@pytest.fixture
def answer(alice):
    def act(value):
        return questions.answer(Question.objects.get().pk, value, by=alice, via="web")

    return act


def test_a_contact_comes_back_as_it_was_sent_and_waits(humanlayer):
    sent = humanlayer.contact("Which colour?", "human-1", state={"step": 3}).json()

    assert sent["call_id"] == "human-1"
    assert (sent["spec"]["msg"], sent["spec"]["state"]) == ("Which colour?", {"step": 3})
    assert sent["status"]["response"] is None
    assert humanlayer.get("/contact_requests/human-1").json() == sent
    assert humanlayer.get("/human_contacts/human-1").json() == sent
    assert Question.objects.get().text == "Which colour?"


def test_the_answer_of_a_person_is_its_text(humanlayer, answer):
    humanlayer.contact("Which colour?", "human-1")

    answer("Green")

    status = humanlayer.poll_contact("human-1")
    assert (status["response"], status["response_option_name"]) == ("Green", None)


@pytest.mark.parametrize(
    ("given", "response", "option"),
    [
        ({"answer": "later"}, "Not now, ask tomorrow", "later"),
        ({"answer": "never"}, "Never", "never"),
        ({"answer": "never", "in_your_own_words": "No, never."}, "No, never.", "never"),
        ({"in_your_own_words": "Let me think"}, "Let me think", None),
    ],
)
def test_an_option_is_told_by_its_text_and_its_name(humanlayer, answer, given, response, option):
    humanlayer.contact("Ship it?", "human-1", response_options=OPTIONS)

    answer(given)

    status = humanlayer.poll_contact("human-1")
    assert (status["response"], status["response_option_name"]) == (response, option)


def test_an_empty_answer_is_told_in_words(humanlayer, answer):
    humanlayer.contact("Which colour?", "human-1")

    answer("")

    assert humanlayer.poll_contact("human-1")["response"] == "The answer has no text."


def test_nobody_answered_in_time(humanlayer):
    humanlayer.contact("Which colour?", "human-1")
    question = Question.objects.get()
    Question.objects.filter(pk=question.pk).update(expires_at=question.created_at)

    questions.lapse(question.pk)

    assert humanlayer.poll_contact("human-1")["response"] == "Nobody answered in time."


def test_the_same_contact_again_asks_nobody_twice(humanlayer):
    first = humanlayer.contact("Which colour?", "human-1", state={"step": 1})

    again = humanlayer.contact("Which colour?", "human-1", state={"step": 1})
    other = humanlayer.contact("Which colour?", "human-1", state={"step": 2})

    assert again.json() == first.json()
    assert (other.status_code, other.json()["code"]) == (409, "call_id_taken")
    assert Task.objects.count() == 1


def test_whom_the_client_wanted_to_reach_stands_beside_the_question(humanlayer):
    humanlayer.contact(channel={"sms": {"phone_number": "+49 30 1234"}})

    (note,) = Question.objects.get().evidence
    assert note["text"] == "The client asked to reach +49 30 1234 by SMS. Nothing is sent there."


def test_no_agent_answers_its_own_question(humanlayer):
    humanlayer.contact("Which colour?", "human-1")

    answer = humanlayer.post("/agent/human_contacts/human-1/respond", {"response": "Green"})

    assert (answer.status_code, answer.json()["code"]) == (403, "not_allowed")
    assert humanlayer.poll_contact("human-1")["response"] is None


def test_a_message_that_cannot_be_shown_is_refused_and_nobody_is_asked(humanlayer):
    assert humanlayer.contact("x" * 10_001).status_code == 422
    assert humanlayer.contact("evil \u202e text").status_code == 422
    assert not Question.objects.exists()


def test_who_escalates_a_question_adds_words_to_it(humanlayer):
    humanlayer.contact("Which colour?", "human-1")

    answer = humanlayer.post(
        "/agent/human_contacts/human-1/escalate_email", {"escalation_msg": "It is urgent."}
    )

    assert answer.status_code == 200
    assert Task.objects.get().messages.last().parts == [{"text": "It is urgent."}]
