"""A manager gives work in the browser, answers, gets the result, asks for a revision, cancels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from a2a import tasks
from a2a.models import Skill, Task
from a2a.tasks import questions
from ledger.models import Agent
from ledger.proof.audit import verification
from tests.processes import Product, running

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.browser,
    pytest.mark.usefixtures("alice_user", "bob_user"),
]
SCHEMA = {
    "type": "object",
    "properties": {
        "topic": {"type": "string", "maxLength": 80},
        "tone": {"enum": ["Warm", "Plain"]},
        "pages": {"type": "integer"},
    },
    "required": ["topic", "tone"],
}


@pytest.fixture
def product(worker: Agent) -> Iterator[Product]:
    Skill.objects.create(
        agent=worker, slug="report", name="Write a report", input_schema=SCHEMA, lease="01:00:00"
    )
    with running("web", "sweeper") as product:
        yield product


class Worker:
    """The agent's side, as its own program would do it."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent.principal

    def claim(self) -> Task:
        task = tasks.claim(self.agent, skills=[], via="api")
        assert task is not None
        return task

    def ask(self, task: Task, text: str) -> None:
        self._do(questions.ask, task, text=text)

    def complete(self, task: Task, result: Any) -> None:
        task.refresh_from_db()
        self._do(tasks.complete, task, result=result)

    def _do(self, verb: Callable[..., Any], task: Task, **said: Any) -> None:
        verb(task.pk, agent=self.agent, fencing_token=task.fencing_token, via="api", **said)


def give(page: Page, product: Product, topic: str) -> None:
    page.goto(f"{product.url}/tasks/")
    page.get_by_role("link", name="Give work").click()
    page.get_by_role("link", name="Write a report").click()
    page.get_by_label("Topic").fill(topic)
    page.get_by_label("Warm").check()
    page.get_by_role("button", name="Give the work").click()
    expect(page.locator("#item .state")).to_contain_text("Waiting for a worker")


def test_the_whole_way_of_work_that_a_person_gives(desk_of, product, worker, alice_user):
    alice, agent = desk_of("alice"), Worker(worker)
    give(alice, product, "Fares in May")
    item = alice.locator("#item")

    task = agent.claim()
    expect(item.locator(".state")).to_contain_text(
        "Being worked on"
    )  # live: nobody loaded the page again
    agent.ask(task, "Does May include the strike days?")
    item.get_by_role("link", name="Does May include").click()
    item.get_by_label("Your answer").fill("Yes.")
    item.get_by_role("button", name="Answer").click()
    expect(item).to_contain_text("Alice Moreau answered on the desk")
    item.get_by_role("link", name="See the task").click()
    agent.complete(task, {"text": "A table of fares."})
    expect(item.locator(".artifact")).to_contain_text("A table of fares.")

    item.get_by_role("link", name="Revise").click()
    expect(alice.get_by_label("Topic")).to_have_value("Fares in May")
    expect(alice.get_by_label("Warm")).to_be_checked()
    alice.get_by_label("What should change").fill("Keep the table, change the tone.")
    alice.get_by_label("Plain").check()
    alice.get_by_role("button", name="Ask for the revision").click()
    expect(item.locator(".tree")).to_contain_text("Keep the table, change the tone.")
    revision = agent.claim()
    assert (revision.revises_id, revision.input["tone"]) == (task.pk, "Plain")
    agent.complete(revision, {"text": "The same table."})
    expect(item.locator(".state")).to_contain_text("Completed")

    give(alice, product, "Another one")
    alice.get_by_role("button", name="Cancel the task…").click()
    alice.get_by_label("Why?").fill("Not needed any more.")
    alice.get_by_role("button", name="Cancel the task", exact=True).click()
    expect(item.locator(".state")).to_contain_text("Canceled")
    assert verification.verify().others == 5  # with two accounts
    submitted = set(Task.objects.values_list("submitted_by", flat=True))
    assert submitted == {f"user:{alice_user.pk}"}


def test_what_was_typed_and_chosen_survives_a_refusal(desk_of, product, tmp_path):
    file = tmp_path / "notes.txt"
    file.write_text("The strike was on 3 May.")
    alice = desk_of("alice")
    skill = Skill.objects.get()
    alice.goto(f"{product.url}/tasks/new/{skill.pk}/")
    alice.get_by_label("Topic").fill("Fares in May")
    alice.get_by_role("textbox", name="Pages").fill("a few")
    alice.get_by_label("Files").set_input_files(file)
    alice.get_by_role("button", name="Give the work").click()

    expect(alice.get_by_text("“a few” is not a number.")).to_be_visible()
    expect(alice.get_by_text("Choose one.")).to_be_visible()
    expect(alice.get_by_label("Topic")).to_have_value("Fares in May")
    alice.get_by_role("textbox", name="Pages").fill("3")
    alice.get_by_label("Plain").check()
    alice.get_by_role("button", name="Give the work").click()
    expect(alice.locator("#item .state")).to_contain_text("Waiting for a worker")
    parts = Task.objects.get().messages.get().parts
    assert [part.get("filename") for part in parts] == [None, "notes.txt"]


def test_the_tree_follows_the_tasks_it_shows(desk_of, product, worker):
    alice, bob, agent = desk_of("alice"), desk_of("bob"), Worker(worker)
    give(alice, product, "Fares in May")
    first = agent.claim()
    agent.complete(first, {})
    bob.goto(f"{product.url}/tasks/{first.pk}/revise/")
    bob.get_by_label("What should change").fill("Shorter.")
    bob.get_by_role("button", name="Ask for the revision").click()
    expect(bob.locator(".tree")).to_contain_text("waiting for a worker")
    alice.goto(f"{product.url}/tasks/{first.pk}/")
    expect(alice.locator("[data-live]")).to_have_text("Live")

    agent.claim()
    expect(alice.locator(".tree")).to_contain_text("revision 1 · being worked on")


def test_files_that_are_too_large_are_not_even_sent(desk_of, product, tmp_path):
    file = tmp_path / "large.bin"
    file.write_bytes(b"x" * 800_000)
    page = desk_of("alice", viewport={"width": 390, "height": 844})
    page.goto(f"{product.url}/tasks/new/{Skill.objects.get().pk}/")
    page.get_by_label("Files").set_input_files(file)

    expect(page.get_by_text("more than 700 kB")).to_be_visible()
    assert page.get_by_label("Files").evaluate("field => field.files.length") == 0
    assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_an_answer_that_is_not_the_form_does_not_replace_what_was_typed(desk_of, product):
    page = desk_of("alice")
    page.goto(f"{product.url}/tasks/new/{Skill.objects.get().pk}/")
    page.get_by_label("Topic").fill("Fares in May")
    page.get_by_label("Note to the agent").evaluate("field => field.value = 'x'.repeat(300_000)")
    page.get_by_role("button", name="Give the work").click()

    expect(page.get_by_text("It could not be sent, and nothing was given.")).to_be_visible()
    expect(page.get_by_label("Topic")).to_have_value("Fares in May")
    assert not Task.objects.exists()
