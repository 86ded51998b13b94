"""Assent as the client of an agent built on another library, over real HTTP."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from a2a import remote as remote_agents, submissions, tasks
from a2a.models import Mirror, RemoteAgent, Skill, Task
from a2a.remote import calls, cards, outgoing, sync
from a2a.submissions import Submission
from a2a.tasks import questions
from a2a.validation import extensions
from a2a.wire.remote import card_from_json
from ledger.models import Scope, Tenant, Watched
from ledger.principals import SWEEPER
from ledger.tools import watched
from ledger.workers import jobs, sweeper
from tests.agents_at_work import caller_for
from tests.processes import ROOT, _listens, free_port, until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]


class FastAgent:
    """The agent of ``tests/peers/fasta2a_agent.py`` as a process that can be killed."""

    def __init__(self) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *options: str) -> None:
        command = [sys.executable, "tests/peers/fasta2a_agent.py", "--port", str(self.port)]
        self.process = subprocess.Popen([*command, *options], cwd=ROOT, start_new_session=True)
        until(lambda: _listens(self.port), what="the remote agent listens")

    def kill(self) -> None:
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None


@pytest.fixture
def fast_agent(settings: Any) -> Iterator[FastAgent]:
    settings.WEBHOOK_NETWORKS = ["127.0.0.0/8"]
    agent = FastAgent()
    agent.start()
    yield agent
    agent.kill()


@pytest.fixture
def remote(fast_agent: FastAgent, acme: Tenant) -> RemoteAgent:
    return remote_agents.register(acme, slug="fast", url=fast_agent.url)


@pytest.fixture
def submit(orchestrator: Any) -> Any:
    caller = caller_for(orchestrator, Scope.SUBMIT)

    def submit(skill: str, value: Any = None) -> Task:
        submission = Submission(skill=skill, input=value)
        return submissions.submit(submission, caller=caller, via="api").task

    return submit


def look(task: Task) -> Task:
    """One look at the remote, as the sweeper's job makes it when it is due."""
    Mirror.objects.filter(task=task).update(look_at=timezone.now() - timedelta(seconds=1))
    sync.sync(task.pk)
    task.refresh_from_db()
    return task


def until_it_is(task: Task, state: str) -> Task:
    try:
        until(lambda: look(task).state == state, seconds=10)
    except AssertionError:
        raise AssertionError(f"{task.state}, not {state}: {task.note} {task.reason}") from None
    return task


def test_a_registered_agents_skills_are_offered_and_its_card_is_pinned(remote):
    assert set(Skill.objects.values_list("slug", flat=True)) == {
        "echo",
        "ask",
        "slow",
        "fail",
        "read",
    }
    remote.refresh_from_db()
    assert (remote.card_version, remote.card["name"]) == ("2.0.1", "Fast agent")
    assert remote.watched.held_why == ""


@pytest.mark.parametrize(
    ("required", "why"),
    [(["extended_agent_card"], "it lacks the capability extended_agent_card")],
)
def test_a_card_without_what_is_required_is_refused(fast_agent, acme, required, why):
    with pytest.raises(remote_agents.CardRefused, match=why):
        remote_agents.register(acme, slug="fast", url=fast_agent.url, required=required)

    assert RemoteAgent.objects.count() == Skill.objects.count() == 0


def test_private_addresses_are_refused_unless_the_operator_allows_them(fast_agent, acme, settings):
    settings.WEBHOOK_NETWORKS = []
    with pytest.raises(remote_agents.CardRefused, match="not on the public internet"):
        remote_agents.register(acme, slug="fast", url=fast_agent.url)


def test_a_task_is_done_there_and_its_artifacts_come_back(remote, submit):
    task = submit("echo", {"a": [1, 2]})

    until_it_is(task, "completed")

    assert task.result == {"echo": {"a": [1, 2]}}
    assert task.artifacts.get().artifact_id == "echo"
    assert task.owner == "agent:acme/fast"
    kinds = [event.kind for event in task.events]
    assert kinds == ["task_submitted", "task_claimed", "task_artifact_added", "task_completed"]


@pytest.mark.parametrize(
    ("value", "prompt"),
    [
        ({"text": "Hello"}, "Hello"),
        ({"question": "Why?"}, "Why?"),
        ({"a": 1, "b": 2}, '{"a": 1, "b": 2}'),
    ],
)
def test_an_agent_that_takes_no_json_is_sent_text(remote, submit, value, prompt):
    task = submit("read", value)

    until_it_is(task, "completed")

    assert task.result == {"echo": prompt}
    (sent,) = Mirror.objects.get().sent
    assert sent["parts"] == [{"text": prompt}], "what was sent is kept"
    assert sent["metadata"]["skill"] == "read"


def test_what_a_client_sent_as_text_and_files_goes_on_as_it_was(remote, orchestrator):
    parts = [{"text": "Read this:"}, {"url": "https://example.com/a.pdf"}, {"text": "and hurry"}]
    task = submissions.submit(
        Submission(skill="echo", input={"text": "…"}, parts=parts),
        caller=caller_for(orchestrator, Scope.SUBMIT),
        via="a2a",
    ).task

    until_it_is(task, "completed")

    assert Mirror.objects.get().sent[0]["parts"] == parts
    assert task.result == {"echo": "Read this: and hurry"}


def a_card(*modes: str, of_skill: list[str] | None = None, extensions: Any = ()) -> Any:
    skill = {"id": "s", "name": "S", "description": "d", "tags": ["t"]}
    said = {
        "name": "Remote",
        "supportedInterfaces": [{"url": "https://r.example", "protocolBinding": "JSONRPC"}],
        "capabilities": {"extensions": [{"uri": uri} for uri in extensions]},
        "defaultInputModes": list(modes),
        "skills": [{**skill, "inputModes": of_skill or []}],
    }
    return card_from_json(said)


ASKED = {"skill": "s", "input": {"a": 1}}
AS_TEXT, AS_DATA = {"text": '{"a": 1}'}, {"data": ASKED}


@pytest.mark.parametrize(
    ("card", "expected"),
    [
        (a_card(), [AS_TEXT]),
        (a_card("text/plain"), [AS_TEXT]),
        (a_card("text"), [AS_TEXT]),
        (a_card("application/json"), [AS_DATA]),
        (a_card("text/plain", "application/json; charset=utf-8"), [AS_TEXT, AS_DATA]),
        (a_card("application/json", of_skill=["text/plain"]), [AS_TEXT]),
        (a_card("text/plain", extensions=[extensions.SKILLS_EXTENSION]), [AS_DATA]),
    ],
)
def test_what_is_sent_follows_the_media_types_of_the_card(card, expected, consolidate, client_of):
    parts = [{"data": {"skill": "consolidate", "input": {"a": 1}}}]
    task = Task.objects.create(
        tenant="acme", context_id="c", state="submitted", skill_slug="s", input={"a": 1}
    )
    task.messages.create(message_id="m", role="user", parts=parts)
    accepts = outgoing.accepted_by(card, "s")

    assert outgoing.parts_of_task(task, accepts) == expected
    answer = outgoing.parts_of_answer(True, accepts)
    assert ({"text": "true"} in answer) == accepts.text
    assert ({"data": True} in answer) == accepts.json
    assert outgoing.parts_of_answer("3 May", accepts) == [{"text": "3 May"}]


def test_its_question_becomes_one_here_and_the_answer_goes_back(remote, submit, alice):
    task = submit("ask")
    until_it_is(task, "input-required")
    question = task.questions.get()
    assert question.text == "Which of the two dates is right?"

    questions.answer(question.pk, "3 May", by=alice, via="web")
    until_it_is(task, "completed")

    assert task.result == {"echo": "3 May"}


def test_its_failure_is_ours_with_the_reason(remote, submit):
    task = submit("fail")
    until_it_is(task, "failed")

    assert (task.reason_code, bool(task.reason)) == ("remote_failed", True)


def test_a_remote_that_forgot_the_task_after_its_restart_is_seen(remote, submit, fast_agent):
    task = submit("ask")
    until_it_is(task, "input-required")
    fast_agent.kill()
    fast_agent.start()

    until_it_is(task, "canceled")

    assert (task.reason_code, task.reason) == (
        "remote_lost",
        "The remote agent does not know the task any more.",
    )
    assert task.questions.get().state == "withdrawn"


def test_a_remote_out_of_reach_is_seen_and_given_up_in_the_end(
    remote, submit, fast_agent, settings
):
    task = submit("slow")
    until_it_is(task, "working")
    fast_agent.kill()

    look(task)
    assert task.state == "working"
    assert "does not answer; trying again" in task.note
    assert Watched.objects.get().error
    settings.REMOTE_LOST_S = 0
    look(task)

    assert (task.state, task.reason_code) == ("failed", "remote_lost")


def test_canceled_here_is_canceled_there(remote, submit, orchestrator):
    task = submit("ask")
    until_it_is(task, "input-required")
    tasks.cancel(task.pk, by=orchestrator.principal, via="api")

    look(task)

    assert Mirror.objects.get().is_over


def test_drift_is_shown_and_stops_new_tasks_until_the_card_is_pinned_again(
    remote, submit, fast_agent
):
    fast_agent.kill()
    fast_agent.start("--gone", "ask")
    Watched.objects.update(read_again_at=timezone.now() - timedelta(seconds=1))

    sweeper.Sweeper().sweep()
    until(lambda: (watched.read_again(remote.watched_id), Watched.objects.get().held_why)[1])

    assert Watched.objects.get().held_why == "ask: the skill is gone."
    refused = submit("ask")
    assert (refused.state, refused.reason_code) == ("rejected", "card_drifted")
    assert submit("echo", 1).state == "submitted"

    remote_agents.pin(RemoteAgent.objects.get(), by=SWEEPER, via="admin")
    assert Watched.objects.get().held_why == ""
    assert submit("ask").reason_code == "unsupported_capability"


def read_the_card_again():
    Watched.objects.update(read_again_at=timezone.now() - timedelta(seconds=1))
    assert watched.read_again(Watched.objects.get().pk) == ""


def test_the_sample_of_an_operator_is_sent_after_the_card_has_changed(remote, fast_agent):
    read_the_card_again()
    RemoteAgent.objects.update(sample={"skill": "echo", "input": {"a": 1}})
    read_the_card_again()
    assert not Task.objects.exists(), "it has not changed"

    fast_agent.kill()
    fast_agent.start("--version", "2.0.2")
    read_the_card_again()

    task = RemoteAgent.objects.get().probe
    assert (task.submitted_by, task.skill_slug) == ("system:probe", "echo")
    until_it_is(task, "completed")


def test_without_a_sample_of_an_operator_a_changed_card_sends_nothing(remote, fast_agent):
    fast_agent.kill()
    fast_agent.start("--version", "2.0.2")
    read_the_card_again()

    assert not Task.objects.exists()


def test_the_poll_slows_down_while_nothing_changes(remote, submit):
    task = submit("ask")
    until_it_is(task, "input-required")
    pauses = []
    for _ in range(5):
        look(task)
        left = Mirror.objects.get().look_at - timezone.now()
        pauses.append(round(left.total_seconds()))

    assert pauses == [4, 8, 16, 30, 30]


def test_a_push_of_theirs_hurries_the_next_look_and_a_strangers_does_not(remote, submit, client):
    task = submit("ask")
    until_it_is(task, "input-required")
    later = timezone.now() + timedelta(hours=1)
    Mirror.objects.update(look_at=later)
    mirror = Mirror.objects.get()
    there = f"/a2a/news/{mirror.pk}"

    assert client.post(there, headers={"X-A2A-Notification-Token": "guess"}).status_code == 404
    assert Mirror.objects.get().look_at == later
    told = client.post(there, headers={"X-A2A-Notification-Token": mirror.secret})

    assert told.status_code == 204
    assert Mirror.objects.get().look_at <= timezone.now()


def elsewhere(action):
    """Run as another worker would: in a thread with a database session of its own."""

    def run():
        try:
            action()
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        pool.submit(run).result(20)


def while_it_answers(monkeypatch, action):
    """The next exchange with the remote is not over before ``action``, done by others, is."""
    answers, turns = calls.call, [action]

    def answered(remote, what):
        found = answers(remote, what)
        if turns:
            elsewhere(turns.pop())
        return found

    monkeypatch.setattr(calls, "call", answered)


def test_news_of_a_task_that_is_still_being_sent_do_not_send_it_twice(
    remote, submit, client, monkeypatch
):
    task = submit("ask")
    asked_for = []
    monkeypatch.setattr(jobs, "enqueue", lambda name, subject: asked_for.append(str(subject)))

    def news():
        mirror = Mirror.objects.get()
        there = f"/a2a/news/{mirror.pk}"
        assert client.post(there, headers={"X-A2A-Notification-Token": mirror.secret})
        sync.sync(task.pk)
        assert Mirror.objects.get().remote_task_id == ""

    while_it_answers(monkeypatch, news)
    sync.sync(task.pk)

    assert asked_for == [str(task.pk)]
    assert Mirror.objects.get().hold == 1
    assert sync.due() == [task.pk], "the news are looked at next"


def test_a_look_that_was_overtaken_asks_nothing_a_second_time(remote, submit, alice, monkeypatch):
    task = submit("ask")
    sync.sync(task.pk)
    until(lambda: peek() == "input-required")

    def another_looks_and_a_person_answers():
        Mirror.objects.update(busy_until=timezone.now(), look_at=timezone.now())
        sync.sync(task.pk)
        questions.answer(task.questions.get().pk, "3 May", by=alice, via="web")

    while_it_answers(monkeypatch, another_looks_and_a_person_answers)
    look(task)

    assert (task.state, task.questions.count()) == ("working", 1)


def peek():
    """How their task stands, by a call of our own."""
    mirror = Mirror.objects.get()
    return calls.call(mirror.remote, lambda remote: remote.get(mirror.remote_task_id)).state


def test_a_card_that_is_pinned_while_the_old_one_is_compared_is_not_called_changed(
    remote, fast_agent, monkeypatch
):
    fast_agent.kill()
    fast_agent.start("--gone", "ask")
    Watched.objects.update(read_again_at=timezone.now() - timedelta(seconds=1))
    fetch = cards.fetch

    def fetch_while_somebody_pins(url, token=""):
        monkeypatch.setattr(cards, "fetch", fetch)
        card = fetch(url, token)
        elsewhere(lambda: remote_agents.pin(RemoteAgent.objects.get(), by=SWEEPER, via="admin"))
        return card

    monkeypatch.setattr(cards, "fetch", fetch_while_somebody_pins)
    watched.read_again(remote.watched_id)

    assert Watched.objects.get().held_why == ""
    assert set(Skill.objects.values_list("drift", flat=True)) == {""}


def test_a_revision_refers_to_the_task_there_and_says_what_to_change(remote, orchestrator):
    def give(**said: Any) -> Task:
        submission = Submission(skill="read", input={"text": "A table"}, **said)
        caller = caller_for(orchestrator, Scope.SUBMIT)
        return submissions.submit(submission, caller=caller, via="api").task

    first = until_it_is(give(), "completed")
    request = {"data": {"skill": "read", "input": {"text": "A table"}}}
    second = give(revises=first.pk, parts=[request, {"text": "Change the tone"}])
    until_it_is(second, "completed")

    earlier = Mirror.objects.get(task=first)
    (sent,) = Mirror.objects.get(task=second).sent
    assert sent["referenceTaskIds"] == [earlier.remote_task_id]
    assert sent["contextId"] == earlier.remote_context_id
    assert [part["text"] for part in sent["parts"]] == ["A table", "Change the tone"]
