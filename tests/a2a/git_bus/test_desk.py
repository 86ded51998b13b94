"""The desk says over which bus a task came, and how far its sender can be trusted."""

from __future__ import annotations

import pytest

from a2a import tasks
from a2a.doors.git_bus.models import BusRequest, Progress, Strangers
from a2a.models import Question, Task
from a2a.tasks import questions
from tests.agents_at_work import GOOD_RESULT

pytestmark = pytest.mark.django_db


def page_of(client, row) -> str:
    kind = "questions" if isinstance(row, Question) else "tasks"
    return " ".join(client.get(f"/{kind}/{row.pk}/").content.decode().split())


@pytest.fixture
def arrived(bus, participant):
    participant.submit("r-1")
    bus.turn()
    return Task.objects.get(skill_slug="consolidate")


NOT_SIGNED = "It names Ann &lt;ann@partner.example&gt;; nothing proves that."


def test_a_task_that_came_over_a_bus_says_so_and_that_nothing_proves_its_sender(
    arrived, bus, as_alice
):
    page = page_of(as_alice, arrived)

    assert "through the git repository of <b><bdi>Partner</bdi></b>" in page
    assert f"<code>{bus.request('r-1').commit[:10]}</code>" in page
    assert "names <b><bdi>human_pm</bdi></b> as its sender" in page
    assert NOT_SIGNED in page


def test_a_question_of_such_a_task_says_it_too(arrived, consolidate, as_alice):
    worker = consolidate.agent.principal
    claimed = claim(arrived, worker)
    questions.ask(
        arrived.pk, agent=worker, fencing_token=claimed.fencing_token, text="Which?", via="api"
    )

    assert NOT_SIGNED in page_of(as_alice, Question.objects.get())


def test_what_a_signer_has_signed_is_shown_with_the_key(arrived, as_alice):
    BusRequest.objects.update(signer="ann@partner.example", key="SHA256:abc")

    page = page_of(as_alice, arrived)

    assert "Signed by ann@partner.example (SHA256:abc)." in page
    assert "not signed" not in page


def test_a_task_below_is_told_of_where_the_one_above_came_from(arrived, a_task, as_alice):
    below = a_task()
    assert "git repository" not in page_of(as_alice, below)

    Task.objects.filter(pk=below.pk).update(parent=arrived)

    page = page_of(as_alice, below)
    assert "Delegated by a task that came through the git repository of" in page
    assert NOT_SIGNED in page


def test_the_question_whether_to_take_a_request_names_its_commit(bus, participant, as_alice):
    bus.set(strangers=Strangers.ASK)
    participant.submit("r-1")
    bus.turn()
    row = bus.request("r-1")
    assert row.progress == Progress.HELD

    page = page_of(as_alice, Question.objects.get(task=row.admission))

    assert f"<code>{row.commit[:10]}</code>" in page


def test_a_task_that_another_did_says_who_took_it(bus, participant, ask_for_draft, as_alice):
    task = ask_for_draft()
    bus.turn()
    assert "Sent through the git repository of <b><bdi>Partner</bdi></b>." in page_of(
        as_alice, task
    )

    participant.answer(bus.sent(task), result=GOOD_RESULT)
    bus.turn()

    page = page_of(as_alice, task)
    assert "<b><bdi>ann_agent</bdi></b> took it" in page
    assert "The answer: The commit is not signed." in page


def claim(task: Task, worker):
    return tasks.claim_task(task.pk, by=worker, via="api")
