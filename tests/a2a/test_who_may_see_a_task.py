"""Which tokens authenticate and which tasks they show: one rule in the ORM and in written SQL."""

from __future__ import annotations

from datetime import timedelta
from itertools import product

import pytest
from django.utils import timezone

from a2a.models import Skill, Task
from a2a.protocol import fast_path
from ledger.agents.callers import callers_with
from ledger.models import Agent, AgentToken, Scope, Tenant

pytestmark = pytest.mark.django_db

A_MINUTE = timedelta(minutes=1)


@pytest.fixture
def agents(acme, globex):
    """Two tenants with agents of the same slugs, active and not."""

    def of(tenant: Tenant) -> list[Agent]:
        return [
            Agent.objects.create(tenant=tenant, slug=slug, name=slug, is_active=is_active)
            for slug, is_active in (
                ("client", True),
                ("worker", True),
                ("observer", True),
                ("retired", False),
            )
        ]

    return of(acme) + of(globex)


@pytest.fixture
def tokens(agents):
    """A token for every combination of agent, scope, revocation and expiry."""
    now = timezone.now()
    scopes = ([Scope.SUBMIT], [Scope.WORK, Scope.READ_ALL])
    issued = {}
    for agent, scope, revoked_at, expires_at in product(
        agents, scopes, (None, now), (None, now - A_MINUTE, now + A_MINUTE)
    ):
        row, text = AgentToken.issue(
            agent, scopes=scope, expires_at=expires_at, revoked_at=revoked_at
        )
        issued[text] = row
    return issued


@pytest.fixture
def tasks_of(agents):
    """Submitted and worked on by every pair of agents, across tenants too."""
    skill = Skill.objects.create(agent=agents[1], slug="any", name="Any")
    return [
        Task.objects.create(
            tenant=client.tenant_id,
            submitted_by=str(client.principal),
            owner=str(worker.principal),
            skill=skill,
            skill_slug="any",
            state="working",
        )
        for client, worker in product(agents, agents)
    ]


def is_usable(token: AgentToken) -> bool:
    is_current = token.expires_at is None or token.expires_at > timezone.now()
    return is_current and token.revoked_at is None and token.agent.is_active


def may_see(token: AgentToken, task: Task) -> bool:
    own = str(token.agent.principal)
    at_home = task.tenant == token.agent.tenant_id
    reads_all = Scope.READ_ALL in token.scopes
    return task.submitted_by == own or (at_home and (task.owner == own or reads_all))


def test_a_token_authenticates_while_it_and_its_agent_are_good(tokens):
    usable = {row.pk for row in tokens.values() if is_usable(row)}

    assert len(usable) == len(tokens) // 4
    assert {row.pk for row in AgentToken.objects.usable()} == usable
    for (text, row), caller in zip(tokens.items(), callers_with(list(tokens)), strict=True):
        assert (caller is not None) == (row.pk in usable), text
        if caller is not None:
            assert caller.principal == row.agent.principal
            assert caller.tenant == row.agent.tenant_id
            assert caller.scopes == frozenset(row.scopes)


def test_the_fast_path_shows_a_token_the_tasks_that_the_orm_shows_it(tokens, tasks_of):
    callers = dict(zip(tokens, callers_with(list(tokens)), strict=True))
    asked = list(product(tokens, tasks_of))
    shown = fast_path.visible_tasks([(tokens[text].token_hash, task.pk) for text, task in asked])

    by_orm = {
        text: set(Task.objects.visible_to(caller).values_list("pk", flat=True)) if caller else set()
        for text, caller in callers.items()
    }
    for (text, task), row in zip(asked, shown, strict=True):
        expected = is_usable(tokens[text]) and may_see(tokens[text], task)
        assert (task.pk in by_orm[text]) == expected
        assert row == ((task.pk, task.updated_at, task.tenant) if expected else None)


def test_an_unknown_token_and_an_unknown_task_show_nothing(tokens, tasks_of):
    good = next(row for row in tokens.values() if is_usable(row))
    missing = Task(tenant="acme").pk

    assert callers_with(["nothing"]) == [None]
    assert fast_path.visible_tasks([("nothing", tasks_of[0].pk), (good.token_hash, missing)]) == [
        None,
        None,
    ]
