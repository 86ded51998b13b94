"""The plain dialect as its article has it: the client runs against us as it stands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from a2a import tasks
from a2a.cards import dialect_card
from a2a.models import Skill, Task
from a2a.tasks import questions
from ledger import execution
from ledger.foundation import doorbell
from ledger.models import AgentToken, Scope, Transaction
from ledger.transactions import coordinator
from tests.a2a.test_own_skills import PAY
from tests.a2a.test_plain_rest import TASKS, post
from tests.agents_at_work import GOOD_INPUT
from tests.peers.recall_client import RecallClient, TaskFailed

pytestmark = pytest.mark.django_db(transaction=True)
CARD = dialect_card.PATH


@pytest.fixture
def base(live_server, settings) -> str:
    settings.PUBLIC_URL = live_server.url
    return f"{live_server.url}/api/v1"


@pytest.fixture
def client_with(base, orchestrator) -> Iterator[Callable[..., RecallClient]]:
    """A client whose waiting is what the worker needs for its next step: no test waits."""
    _, token = AgentToken.issue(orchestrator, scopes=[Scope.SUBMIT])
    with ExitStack() as opened:

        def client_with(*steps: Callable[[], object]) -> RecallClient:
            left: Iterator[Callable[[], object]] = iter(steps)
            pauses: list[float] = []

            def sleep(seconds: float) -> None:
                pauses.append(seconds)
                doorbell.redis().flushdb()  # the time in which it would be too soon has passed
                next(left, lambda: None)()

            client = RecallClient(base, token, sleep)
            client.pauses = pauses
            opened.enter_context(client.http)
            return client

        yield client_with


@pytest.fixture
def archivist(worker):
    """The article's worker: begins, finds a contradiction, asks, and finishes."""

    class Archivist:
        def begin(self):
            self.task = tasks.claim(worker.principal, skills=[], via="api")

        @property
        def lease(self):
            token = Task.objects.get().fencing_token
            return {"agent": worker.principal, "fencing_token": token, "via": "api"}

        def ask(self):
            questions.ask(
                self.task.pk,
                **self.lease,
                text="Vegetarian, or not?",
                evidence=[{"text": "The user ordered steak."}],
            )

        def finish(self):
            tasks.complete(self.task.pk, **self.lease, result={"summary": "vegetarian"})

        def decline(self):
            tasks.decline(self.task.pk, **self.lease, reason="Not in French.")

    return Archivist()


def test_the_articles_client_runs_as_it_stands(client_with, consolidate, archivist):
    client = client_with(archivist.begin, archivist.ask, archivist.finish)
    asked = []

    def on_question(description, question):
        asked.append((description, question["evidence"]))
        return "vegetarian"

    client.fetch_card("consolidate")
    task = client.run("consolidate", GOOD_INPUT, on_question)

    assert asked == [("Vegetarian, or not?", [{"text": "The user ordered steak."}])]
    assert task["result"] == {"summary": "vegetarian"}
    assert Task.objects.get().card_version == client.card["version"]


def test_it_asks_less_often_while_nothing_happens(client_with, consolidate, archivist):
    client = client_with(archivist.begin, *[lambda: None] * 13, archivist.finish)
    client.fetch_card("consolidate")
    client.run("consolidate", GOOD_INPUT, lambda *_: "")

    assert client.pauses == [2.0] * 11 + [4.0, 8.0, 16.0, 30.0]


def test_it_tells_rejected_from_failed_and_reads_why(client_with, consolidate, archivist):
    client = client_with(archivist.begin, archivist.decline)
    client.fetch_card("consolidate")

    with pytest.raises(TaskFailed) as refusal:
        client.run("consolidate", GOOD_INPUT, lambda *_: "")

    assert refusal.value.task["state"] == "rejected"
    assert refusal.value.task["reason"]["code"] == "declined"


def test_it_stays_while_people_sign_off_what_its_task_proposed(base, orchestrator, alice):
    _, token = AgentToken.issue(orchestrator, scopes=[Scope.SUBMIT, Scope.PROPOSE])
    waiting = []

    def sign_off_and_carry_out(_: float) -> None:
        doorbell.redis().flushdb()
        if waiting:
            return
        row = Transaction.objects.get()
        waiting.append(client.poll(str(Task.objects.get().pk)))
        coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web")
        execution.commit(row.pk)

    client = RecallClient(base, token, sign_off_and_carry_out)
    with client.http:
        client.fetch_card("prepare_transaction")
        done = client.run("prepare_transaction", PAY, lambda *_: "")
        (task,), row = waiting, Transaction.objects.get()
        assert (task["state"], task["outcome"]["kind"]) == ("working", "pending")
        assert task["outcome"]["transaction_id"] == str(row.pk)
        assert task["token_of_intent"]["intent_digest"] == row.intent_digest
        assert f"/transactions/{row.pk}/" in task["token_of_intent"]["links"]["desk"]
        assert client.http.get(task["links"]["transaction"]).json()["status"] == "committed"

    assert done["state"] == "completed"


def test_the_articles_check_of_capabilities_passes_with_either_card(
    client, client_with, consolidate
):
    required = {"inputRequired", "pushNotifications"}
    push = {"url": "https://orchestrator.example/news", "token": "theirs"}
    body = {"skill": "consolidate", "input": GOOD_INPUT, "push": push}

    task = client_with().submit_with_validation(required, body)

    assert (task["state"], Task.objects.get().push_configs.get().token) == ("submitted", "theirs")
    capabilities = client.get("/.well-known/agent-card.json").json()["capabilities"]
    assert {name for name, value in capabilities.items() if value} >= required


def test_the_card_without_a_token_shows_nothing_of_a_tenant(client, base, consolidate):
    card = client.get(CARD).json()

    assert [skill["id"] for skill in card["skills"]] == ["prepare_transaction", "ask_a_person"]
    assert card["url"] == base
    assert "acme" not in client.get(CARD).content.decode()


def test_the_card_with_a_token_has_the_skills_of_its_tenant_only(
    client, as_orchestrator, consolidate, stranger
):
    _, token = AgentToken.issue(stranger, scopes=[Scope.SUBMIT])

    ours = as_orchestrator.get(CARD)
    theirs = client.get(CARD, headers={"Authorization": f"Bearer {token}"})

    assert "consolidate" in {skill["id"] for skill in ours.json()["skills"]}
    assert "consolidate" not in {skill["id"] for skill in theirs.json()["skills"]}
    assert (ours["Cache-Control"], ours["Vary"]) == ("private, max-age=300", "Authorization")
    wrong = client.get(CARD, headers={"Authorization": "Bearer nobody"})
    assert (wrong.status_code, wrong.json()["code"]) == (401, "not_authenticated")


def test_the_cards_examples_are_those_of_the_schema(as_orchestrator, consolidate):
    Skill.objects.update(input_schema={"type": "object", "examples": [{"transcripts": ["a"]}]})

    skills = as_orchestrator.get(CARD).json()["skills"]

    assert {s["id"]: s["examples"] for s in skills}["consolidate"] == ['{"transcripts": ["a"]}']
    assert all(skill["examples"] for skill in skills)


def test_the_card_is_asked_about_and_fetched_again_only_when_it_changed(
    as_orchestrator, consolidate
):
    first = as_orchestrator.get(CARD)
    known = {"If-None-Match": first["ETag"]}

    assert as_orchestrator.get(CARD, headers=known).status_code == 304
    Skill.objects.update(description="Another one.")
    assert as_orchestrator.get(CARD, headers=known).status_code == 200


def test_who_works_from_an_old_card_is_told_to_fetch_it_again_and_still_served(
    as_orchestrator, consolidate
):
    old = as_orchestrator.get(CARD).json()["version"]
    request = {"skill": "consolidate", "input": GOOD_INPUT, "card_version": old}
    current = post(as_orchestrator, TASKS, request)
    Skill.objects.update(description="It takes more now.")

    outdated = post(as_orchestrator, TASKS, request)

    new = as_orchestrator.get(CARD).json()["version"]
    assert (current.json()["warnings"], current["Assent-Card-Version"]) == ([], old)
    assert (outdated.status_code, outdated.json()["state"]) == (201, "submitted")
    assert [warning["code"] for warning in outdated.json()["warnings"]] == ["card_outdated"]
    assert CARD in outdated.json()["warnings"][0]["hint"]
    assert outdated["Assent-Card-Version"] == new != old


@pytest.mark.parametrize("path", ["/.well-known/agent-card.json", CARD])
def test_every_card_that_is_current_counts_as_current(client, as_orchestrator, consolidate, path):
    version = client.get(path).json()["version"]
    request = {"skill": "consolidate", "input": GOOD_INPUT, "card_version": version}

    assert post(as_orchestrator, TASKS, request).json()["warnings"] == []


def test_without_a_card_version_nothing_is_said_about_cards(as_orchestrator, consolidate):
    answer = post(as_orchestrator, TASKS, {"skill": "consolidate", "input": GOOD_INPUT})

    assert answer.json()["warnings"] == []
    assert "Assent-Card-Version" not in answer
