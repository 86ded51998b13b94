"""The story: 47 transcripts, a contradiction, a question, an answer in the browser, a result."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, expect

from a2a import submissions, tasks
from a2a.models import Message, Question, Skill, Task
from a2a.submissions import Submission
from a2a.tasks import questions
from ledger.models import Agent, AgentToken, Scope
from ledger.principals import agent
from ledger.proof.audit import verification
from tests.processes import ROOT, Product, running

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.browser,
    pytest.mark.usefixtures("alice_user", "bob_user"),
]


@pytest.fixture
def product(consolidate: Skill) -> Iterator[Product]:
    """Without a worker process: tasks are done by agents. No output schema of the fixture's."""
    Skill.objects.update(output_schema={"required": ["facts"]}, is_retry_safe=True)
    with running("web", "sweeper") as product:
        yield product


@pytest.fixture
def start(product: Product, worker: Agent, orchestrator: Agent, tmp_path) -> Iterator[Callable]:
    """Runs the example as its reader would: ``start("work")`` or ``start("submit")``."""
    running_: list[subprocess.Popen[str]] = []
    for who, scope in ((worker, Scope.WORK), (orchestrator, Scope.SUBMIT)):
        (tmp_path / who.slug).write_text(AgentToken.issue(who, scopes=[scope])[1])

    def begin(what: str, *options: str) -> subprocess.Popen[str]:
        token = tmp_path / (worker.slug if what == "work" else orchestrator.slug)
        address = f"http://localhost:{product.web_port}"
        command = [
            sys.executable,
            "examples/consolidation_worker.py",
            what,
            "--url",
            address,
            "--token-file",
            str(token),
            *options,
        ]
        running_.append(subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True))
        return running_[-1]

    yield begin
    for process in running_:
        process.kill()
        process.communicate()


def answer_in_the_browser(page: Page) -> None:
    row = page.locator("#list .row").first
    expect(row).to_contain_text("The transcripts disagree about the launch date")
    row.locator("a").click()
    expect(page.locator("#item .evidence")).to_contain_text("Remember, the launch date is 5 May.")
    page.get_by_label("5 May").check()
    page.get_by_role("button", name="Answer").click()
    expect(page.locator("#item")).to_contain_text("Alice Moreau answered on the desk")


def test_an_agent_that_gets_stuck_asks_a_person_answers_and_the_task_goes_on(
    desk_of, start, product, alice_user
):
    alice, bob = desk_of("alice"), desk_of("bob")
    worker, client = start("work", "--once"), start("submit")
    bob.wait_for_selector("#list .row")

    answer_in_the_browser(alice)

    assert client.wait(30) == 0
    assert worker.wait(30) == 0
    task = Task.objects.get()
    assert task.result == {
        "transcripts": 47,
        "facts": {"launch date": "5 May", "venue": "the old harbour hall"},
        "settled_by_people": {"launch date": "5 May"},
    }
    question = Question.objects.get()
    assert (question.answered_by, question.answered_via) == (f"user:{alice_user.pk}", "web")
    expect(bob.locator("#list .row")).to_contain_text("Answered by Alice Moreau on the desk")
    alice.goto(f"{product.url}/tasks/{task.pk}/")
    expect(alice.locator(".artifact").first).to_contain_text("The launch date is 5 May.")
    expect(alice.locator(".timeline")).to_contain_text("Asked a question")
    assert verification.verify().others == 3  # with two accounts


def test_a_worker_that_is_killed_while_a_person_thinks_loses_nothing(desk_of, start):
    Skill.objects.update(lease="00:00:02")
    alice = desk_of("alice")
    first = start("work")
    client = start("submit")
    alice.wait_for_selector("#list .row")
    first.kill()

    answer_in_the_browser(alice)
    start("work", "--once")

    assert client.wait(40) == 0
    task = Task.objects.get()
    assert (task.state, task.attempts) == ("completed", 2)
    assert Question.objects.count() == 1, "what a person answered is not asked again"
    kinds = [event.kind for event in task.events]
    assert "task_put_back" in kinds


def test_what_somebody_types_or_is_about_to_survives_news_of_the_task(
    desk_of, product, a_claimed_task, worker
):
    task = a_claimed_task()
    questions.ask(
        task.pk,
        agent=worker.principal,
        fencing_token=task.fencing_token,
        text="What shall I write?",
        via="api",
    )
    alice = desk_of("alice")

    def tell(text: str) -> None:
        said = Message(
            message_id=text,
            role="user",
            principal="agent:acme/orchestrator",
            principal_name="Orchestrator",
            parts=[{"text": text}],
        )
        with alice.expect_response("**/questions/*/") as news:
            tasks.add_message(task.pk, said, by=agent("acme", "orchestrator"), via="a2a")
        news.value.finished()
        alice.evaluate("new Promise(requestAnimationFrame)")  # whatever comes of it has come

    alice.locator("#item textarea").focus()
    tell("Be quick.")
    alice.keyboard.insert_text("Dear Ana, ")
    tell("And kind.")

    expect(alice.locator("#item textarea")).to_have_value("Dear Ana, ")
    alice.get_by_role("button", name="Answer").click()
    expect(alice.locator("#item")).to_contain_text("Alice Moreau answered on the desk")
    assert Question.objects.get().answer == "Dear Ana,"


def test_a_revision_does_not_ask_again_what_people_settled(
    start, a_claimed_task, worker, client_of
):
    transcripts = ["Ana: the venue is the town hall.", "Ben: the venue is the old harbour."]
    earlier = a_claimed_task(input={"transcripts": transcripts})
    tasks.complete(
        earlier.pk,
        agent=worker.principal,
        fencing_token=earlier.fencing_token,
        result={"facts": {}, "settled_by_people": {"venue": "the old harbour"}},
        via="api",
    )
    revision = Submission(
        skill="consolidate", input={"transcripts": transcripts}, revises=earlier.pk
    )
    row = submissions.submit(revision, caller=client_of, via="api").task

    assert start("work", "--once").wait(30) == 0
    row.refresh_from_db()
    assert row.result["facts"] == {"venue": "the old harbour"}
    assert not Question.objects.exists()
