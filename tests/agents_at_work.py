"""A skill, its worker, and an orchestrator that submits to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from a2a import submissions, tasks
from a2a.models import Skill, Task
from a2a.submissions import Submission
from ledger.agents.callers import Caller
from ledger.models import Agent, AgentToken, Scope, Tenant

INPUT = {
    "type": "object",
    "properties": {"transcripts": {"type": "array", "items": {"type": "string"}}},
    "required": ["transcripts"],
}
OUTPUT = {"type": "object", "required": ["summary"]}
GOOD_INPUT = {"transcripts": ["one", "two"]}
GOOD_RESULT = {"summary": "Both say the same."}


@pytest.fixture
def worker(acme: Tenant) -> Agent:
    return Agent.objects.create(tenant=acme, slug="archivist", name="Archivist")


@pytest.fixture
def orchestrator(acme: Tenant) -> Agent:
    return Agent.objects.create(tenant=acme, slug="orchestrator", name="Orchestrator")


@pytest.fixture
def consolidate(worker: Agent) -> Skill:
    return Skill.objects.create(
        agent=worker,
        slug="consolidate",
        name="Consolidate transcripts",
        input_schema=INPUT,
        output_schema=OUTPUT,
    )


def caller_for(agent: Agent, *scopes: str) -> Caller:
    return Caller(agent.principal, agent.tenant_id, frozenset(scopes))


@pytest.fixture
def client_of(orchestrator: Agent) -> Caller:
    return caller_for(orchestrator, Scope.SUBMIT)


def speaking_as(agent: Agent, *scopes: str) -> Client:
    _, token = AgentToken.issue(agent, scopes=list(scopes))
    return Client(headers={"Authorization": f"Bearer {token}"})


@pytest.fixture
def as_orchestrator(orchestrator: Agent) -> Client:
    return speaking_as(orchestrator, Scope.SUBMIT)


@pytest.fixture
def as_worker(worker: Agent) -> Client:
    return speaking_as(worker, Scope.WORK)


@pytest.fixture
def a_task(consolidate: Skill, client_of: Caller) -> Callable[..., Task]:
    def make(**said: Any) -> Task:
        said = {"skill": "consolidate", "input": GOOD_INPUT, **said}
        return submissions.submit(Submission(**said), caller=client_of, via="api").task

    return make


@pytest.fixture
def a_claimed_task(a_task: Callable[..., Task], worker: Agent) -> Callable[..., Task]:
    def make(**said: Any) -> Task:
        a_task(**said)
        task = tasks.claim(worker.principal, skills=[], via="api")
        assert task is not None
        return task

    return make
