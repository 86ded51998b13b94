"""Applying files: a plan, what it makes and changes, and nothing the second time."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from django.contrib.auth.models import User

from ledger.models import Agent, AgentToken, Event, Tenant
from tests.declared.conftest import exported, kinds_since

pytestmark = pytest.mark.django_db
ACME = """\
kind: tenant
tenant: acme
name: Acme Travel
tools:
- pay
undo_seconds: 10
limits:
  pending: 900
---
kind: person
tenant: acme
username: alice
name: Alice Moreau
email: alice@acme.example
roles:
- approver
---
kind: person
tenant: acme
username: olga
name: Olga Novak
email: ''
roles:
- operator
- viewer
---
kind: agent
tenant: acme
slug: helpdesk
name: Helpdesk agent
tools:
- '*'
kept_by: olga
webhook_url: https://helpdesk.example/hook
limits:
  questions: 7
---
kind: token
tenant: acme
agent: helpdesk
scopes:
- propose
expires_at: '2099-01-31T00:00:00Z'
"""


def test_files_make_what_they_declare(apply):
    said = apply(ACME)

    assert said.splitlines()[:5] == [
        "+ tenant acme",
        "+ person acme/olga",
        "+ person acme/alice",
        "+ agent acme/helpdesk",
        "+ token acme/helpdesk propose until 2099-01-31T00:00:00+00:00",
    ]
    tenant, agent = Tenant.objects.get(pk="acme"), Agent.objects.get(slug="helpdesk")
    assert (tenant.tools, tenant.undo_seconds, tenant.limits) == (["pay"], 10, {"pending": 900})
    assert agent.kept_by == f"user:{User.objects.get(username='olga').pk}"
    assert agent.limits == {"questions": 7}
    token = AgentToken.objects.get(agent=agent)
    assert token.expires_at == datetime(2099, 1, 31, tzinfo=UTC)
    [shown] = [line for line in said.splitlines() if f"token {token.hint}" in line]
    assert AgentToken.hash_of(shown.rpartition(" ")[2]) == token.token_hash


def test_the_second_time_nothing_is_changed(apply):
    apply(ACME)
    events = Event.objects.count()

    assert apply(ACME) == "= 5 as they are\nNothing was changed: 5 are as they were.\n"
    assert kinds_since(events) == []


def test_each_change_is_an_event_of_the_command(apply):
    apply(ACME)
    events = Event.objects.count()

    said = apply(
        ACME.replace("undo_seconds: 10", "undo_seconds: 20").replace("questions: 7", "questions: 8")
    )

    assert "~ tenant acme: undo_seconds 10 → 20" in said
    assert '~ agent acme/helpdesk: limits {"questions": 7} → {"questions": 8}' in said
    assert kinds_since(events) == ["tenant_changed", "agent_changed"]
    last = Event.objects.latest("pk")
    assert (last.principal, last.via) == ("system:command", "command")
    assert '"edits":{"limit_questions":[7,8]}' in last.details


def test_a_dry_run_writes_no_row_and_no_event(apply):
    said = apply(ACME, "--dry-run")

    assert said.startswith("+ tenant acme\n")
    assert said.endswith("Nothing was changed: this was a dry run.\n")
    assert "token assent_" not in said
    assert (Tenant.objects.count(), User.objects.count(), Event.objects.count()) == (0, 0, 0)


def test_an_export_is_what_was_applied(apply):
    apply(ACME)

    assert exported() == ACME


def test_tokens_of_sign_ins_are_no_settings(apply):
    apply(ACME)
    AgentToken.issue(Agent.objects.get(), scopes=["propose"], is_temporary=True)

    assert exported() == ACME
