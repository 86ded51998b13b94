"""Real peers against real processes: the SDK's client, and what happens when processes die."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from typing import Any
from uuid import uuid4

import httpx
import pytest
from a2a.client import Client, ClientConfig, ClientFactory
from a2a.types import a2a_pb2 as pb
from google.protobuf.json_format import MessageToDict, ParseDict

from a2a.models import Skill, Task
from ledger.models import Agent, AgentToken, Scope
from tests.agents_at_work import GOOD_INPUT
from tests.processes import Product, running, until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]


@pytest.fixture
def product(acme: Any) -> Iterator[Product]:
    """Two processes: agents post to ``web``, streams are open at ``live``."""
    with running("web", "live", "sweeper") as product:
        yield product


class Worker:
    """A worker agent over REST, at the other process."""

    def __init__(self, product: Product, agent: Agent) -> None:
        _, token = AgentToken.issue(agent, scopes=[Scope.WORK])
        self.http = httpx.Client(
            base_url=f"{product.url}/api/v1/work",
            headers={"Authorization": f"Bearer {token}"},
            timeout=30,
        )
        self.work: dict[str, Any] = {}

    def claim(self) -> None:
        answer = self.http.post("/claim", json={"wait_s": 10})
        assert answer.status_code == 200, answer.text
        self.work = answer.json()

    def say(self, verb: str, **said: Any) -> dict[str, Any]:
        body = {"fencing_token": self.work["fencing_token"], **said}
        answer = self.http.post(f"/{self.work['task_id']}/{verb}", json=body)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found


@pytest.fixture
def archivist(product: Product, worker: Agent, consolidate: Skill) -> Iterator[Worker]:
    archivist = Worker(product, worker)
    yield archivist
    archivist.http.close()


@pytest.fixture
def token(orchestrator: Agent) -> str:
    return AgentToken.issue(orchestrator, scopes=[Scope.SUBMIT])[1]


@asynccontextmanager
async def sdk_client(
    product: Product, token: str, binding: str, **config: Any
) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(headers=headers, timeout=30) as http:
        wanted = ClientConfig(
            httpx_client=http,
            supported_protocol_bindings=[binding],
            use_client_preference=True,
            **config,
        )
        async with await ClientFactory(wanted).create_from_url(product.url) as client:
            yield client


def a_message(**said: Any) -> pb.SendMessageRequest:
    message = {
        "messageId": str(uuid4()),
        "role": "ROLE_USER",
        "parts": [{"data": {"skill": "consolidate", "input": GOOD_INPUT}}],
        **said,
    }
    return ParseDict({"message": message}, pb.SendMessageRequest())


def state_of(update: pb.StreamResponse) -> str:
    kind = update.WhichOneof("payload")
    if kind == "artifact_update":
        return "artifact"
    return pb.TaskState.Name(getattr(update, kind).status.state).removeprefix("TASK_STATE_")


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
def test_the_sdks_client_streams_answers_and_reads_over_both_bindings(
    product, token, archivist, binding
):
    """The stream is open at one process; the worker posts to another. It closes where the client
    has the word, and the answer opens the next one."""

    async def story() -> list[str]:
        seen: list[str] = []
        async with sdk_client(product, token, binding) as client:
            async for update in client.send_message(a_message()):
                seen.append(state_of(update))
                if seen[-1] == "SUBMITTED":
                    await asyncio.to_thread(begin)
            assert seen[-1] == "INPUT_REQUIRED"
            answer = a_message(taskId=archivist.work["task_id"], parts=[{"text": "May 3"}])
            async for update in client.send_message(answer):
                seen.append(state_of(update))
                if seen[-1] == "WORKING":
                    await asyncio.to_thread(finish)
            task = await client.get_task(pb.GetTaskRequest(id=archivist.work["task_id"]))
            assert MessageToDict(task)["artifacts"][0]["parts"][0]["data"] == {"summary": "ok"}
            listed = await client.list_tasks(pb.ListTasksRequest())
            assert listed.total_size == 1
        return seen

    def begin() -> None:
        archivist.claim()
        archivist.say("progress", stage="reading", percent=10)
        archivist.say("ask", text="Which date?")

    def finish() -> None:
        archivist.say("complete", result={"summary": "ok"})

    seen = asyncio.run(asyncio.wait_for(story(), 40))

    assert seen == [
        "SUBMITTED",
        "WORKING",
        "WORKING",
        "INPUT_REQUIRED",
        "WORKING",
        "artifact",
        "COMPLETED",
    ]


def test_a_stream_outlives_a_restart_by_subscribing_again(product, token, archivist):
    async def first_state() -> str:
        async with (
            sdk_client(product, token, "JSONRPC") as client,
            aclosing(client.send_message(a_message())) as updates,
        ):
            return state_of(await anext(updates))

    async def rest_of_it(task_id: str) -> list[str]:
        seen = []
        async with sdk_client(product, token, "JSONRPC") as client:
            async for update in client.subscribe(pb.SubscribeToTaskRequest(id=task_id)):
                seen.append(state_of(update))
                if len(seen) == 1:
                    await asyncio.to_thread(archivist.say, "complete", result={"summary": "ok"})
        return seen

    assert asyncio.run(first_state()) == "SUBMITTED"
    archivist.claim()
    product.kill("live")
    archivist.say("progress", stage="while nobody watches", percent=50)
    product.start("live")

    seen = asyncio.run(asyncio.wait_for(rest_of_it(archivist.work["task_id"]), 40))

    assert seen == ["WORKING", "artifact", "COMPLETED"]


def test_stream_and_task_converge_when_redis_is_emptied_and_the_worker_dies(
    product, token, archivist
):
    """The first worker falls silent, the bells are lost; another worker finishes."""
    from ledger.foundation import doorbell

    Skill.objects.update(is_retry_safe=True, lease="00:00:01")

    async def story() -> list[str]:
        seen = []
        async with sdk_client(product, token, "JSONRPC") as client:
            async for update in client.send_message(a_message()):
                seen.append(state_of(update))
                doorbell.redis().flushall()
                if len(seen) == 1:
                    await asyncio.to_thread(archivist.claim)
                if len(seen) == 3:
                    await asyncio.to_thread(archivist.claim)
                    await asyncio.to_thread(archivist.say, "complete", result={"summary": "ok"})
        return seen

    seen = asyncio.run(asyncio.wait_for(story(), 40))

    assert seen == ["SUBMITTED", "WORKING", "SUBMITTED", "WORKING", "artifact", "COMPLETED"]
    assert Task.objects.get().attempts == 2


def test_past_the_deadline_every_watcher_sees_the_reason(product, token, archivist):
    async def story() -> pb.StreamResponse:
        async with sdk_client(product, token, "HTTP+JSON") as client:
            async for update in client.send_message(a_message()):
                if state_of(update) == "SUBMITTED":
                    await asyncio.to_thread(archivist.claim)
                    await asyncio.to_thread(archivist.say, "ask", text="Which?", ttl_s=1)
            task_id = archivist.work["task_id"]
            async for update in client.subscribe(pb.SubscribeToTaskRequest(id=task_id)):
                last = update
        return last

    last = asyncio.run(asyncio.wait_for(story(), 40))

    assert state_of(last) == "CANCELED"
    said = last.status_update.status.message.parts[0].text
    assert said == "INPUT_REQUIRED not resolved within 1s timeout"


def test_the_extended_card_is_for_those_who_have_a_token(product, token, consolidate):
    async def story() -> pb.AgentCard:
        async with sdk_client(product, token, "JSONRPC") as client:
            return await client.get_extended_agent_card(pb.GetExtendedAgentCardRequest())

    card = asyncio.run(story())

    assert "consolidate" in {skill.id for skill in card.skills}
    public = httpx.get(f"{product.url}/.well-known/agent-card.json").json()
    assert {skill["id"] for skill in public["skills"]} == {"prepare_transaction", "ask_a_person"}


def test_two_answers_at_once_have_one_winner(product, token, archivist, alice):
    from concurrent.futures import ThreadPoolExecutor

    from django.db import connection

    from a2a.errors import AlreadyAnswered
    from a2a.models import Question
    from a2a.tasks import questions
    from ledger import principals

    httpx.post(
        f"{product.url}/api/v1/tasks",
        json={"skill": "consolidate", "input": GOOD_INPUT},
        headers={"Authorization": f"Bearer {token}"},
    )
    archivist.claim()
    archivist.say("ask", text="Which?")
    question = Question.objects.get()

    def answer(number: int) -> str:
        try:
            questions.answer(
                question.pk, f"answer {number}", via="web", by=principals.user(number, "A person")
            )
            return "won"
        except AlreadyAnswered:
            return "late"
        finally:
            connection.close()

    with ThreadPoolExecutor(12) as pool:
        outcomes = list(pool.map(answer, range(12)))

    assert sorted(outcomes) == ["late"] * 11 + ["won"]
    assert until(lambda: Task.objects.get().state) == "working"


def test_an_answer_at_the_very_deadline_has_one_winner(a_claimed_task, worker):
    """Answers and the sweeper race for the last milliseconds; each task ends up one way."""
    from concurrent.futures import ThreadPoolExecutor
    from datetime import timedelta

    from django.db import connection

    from a2a.errors import QuestionExpired
    from a2a.models import Question
    from a2a.tasks import questions
    from ledger import principals

    Skill.objects.update(max_concurrency=None)
    asked = []
    for _ in range(6):
        task = a_claimed_task()
        asked.append(
            questions.ask(
                task.pk,
                agent=worker.principal,
                fencing_token=task.fencing_token,
                text="Which?",
                ttl=timedelta(seconds=1),
                via="api",
            )
        )

    def answer(question: Question) -> str:
        try:
            while True:
                if Question.objects.due().filter(pk=question.pk).exists() or is_close(question):
                    questions.answer(question.pk, "now", by=principals.user(1, "Alice"), via="web")
                    return "answered"
        except QuestionExpired:
            return "late"
        finally:
            connection.close()

    def lapse(question: Question) -> None:
        try:
            while Question.objects.waiting().filter(pk=question.pk).exists():
                questions.lapse(question.pk)
        finally:
            connection.close()

    with ThreadPoolExecutor(12) as pool:
        lapsing = [pool.submit(lapse, question) for question in asked]
        said = [pool.submit(answer, question) for question in asked]
        outcomes = [one.result() for one in said]
        for one in lapsing:
            one.result()

    for question, outcome in zip(asked, outcomes, strict=True):
        question.refresh_from_db()
        found = (question.state, question.task.state)
        assert (
            found
            == {
                "answered": ("answered", "working"),
                "late": ("lapsed", "canceled"),
            }[outcome]
        )
        kinds = [event.kind for event in question.task.events]
        assert ("task_answered" in kinds) != ("task_question_lapsed" in kinds)


def is_close(question: Any) -> bool:
    from django.utils import timezone

    return (question.expires_at - timezone.now()).total_seconds() < 0.01
