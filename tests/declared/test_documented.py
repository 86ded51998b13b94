"""The example of docs/operators-as-files.md, as it stands there, and what an export makes of it."""

from __future__ import annotations

import re
from io import StringIO

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command

from ledger.models import Event, Group, RegisteredTool, Tenant
from ledger.sign_off import rules
from tests.a2a.card_server import card_server  # noqa: F401
from tests.declared.conftest import exported, kinds_since
from tests.house.source import ROOT

pytestmark = pytest.mark.django_db(transaction=True)
PAGE = (ROOT / "docs/operators-as-files.md").read_text()
WHOLE, ELSEWHERE, OPTIONAL = re.findall(r"```yaml\n(.*?)```", PAGE, re.S)


@pytest.fixture(autouse=True)
def _secrets(monkeypatch):
    monkeypatch.setenv("BILLING_API_KEY", "k-4711")
    monkeypatch.setenv("TRANSLATOR_TOKEN", "t-4711")
    monkeypatch.setenv("BUS_TOKEN", "b-4711")


def test_the_documented_tenant_is_made_by_one_apply(apply):
    said = apply(WHOLE)

    assert "!" not in said, said
    assert Tenant.objects.get().time_zone == "Europe/Berlin"
    assert sorted(User.objects.values_list("username", flat=True)) == ["alice", "bob", "olga"]
    assert Group.objects.get().members.count() == 2
    assert RegisteredTool.objects.get().name == "refund_invoice"
    active = rules.active("acme")
    assert active is not None
    assert active.rules[0]["when"] == {"tool": {"is": ["refund_invoice"]}}
    call_command("verify_ledger", any_key=True, stdout=StringIO())


def test_applied_twice_it_changes_nothing(apply):
    apply(WHOLE)
    events = Event.objects.count()

    assert apply(WHOLE).startswith("= 14 as they are\n")
    assert kinds_since(events) == []


def test_a_dry_run_finds_nothing_to_refuse_and_writes_nothing(apply):
    said = apply(WHOLE, "--dry-run")

    assert said.count("\n+ ") == 13
    assert "!" not in said
    assert (Tenant.objects.count(), Event.objects.count()) == (0, 0)


def test_its_export_makes_the_same_of_another_tenant(apply, monkeypatch):
    apply(WHOLE)
    first = exported("acme")
    assert "k-4711" not in first
    assert apply(first).startswith("= 14 as they are\n")
    other = first.replace("tenant: acme", "tenant: umbrella")

    said = apply(other)

    # No export has a secret, so the credential waits until somebody names one.
    assert [line for line in said.splitlines() if line.startswith("!")] == [
        "! credential umbrella/billing: Name its secret: there is none here yet. "
        "Nothing of it was changed."
    ]
    named = other.replace("name: billing\n", "name: billing\nsecret: {env: BILLING_API_KEY}\n")
    assert "!" not in apply(named)
    assert exported("umbrella") == other


def test_an_agent_and_a_server_elsewhere_are_registered(apply, card_server):  # noqa: F811
    here = ELSEWHERE.replace("https://translator.partner.example", card_server.url)
    here = here.replace("https://crm.acme.example/mcp", "http://127.0.0.1:9/mcp")
    tenant = "kind: tenant\ntenant: acme\nname: Acme\n---\n"

    refused = apply(tenant + here)
    card = re.search(r"Its card offers echo, and is ([0-9a-f]{64}): look at it", refused)
    assert card is not None, refused
    named = re.sub("[0-9a-f]{64}", card.group(1), here)

    assert "!" not in apply(named)
    events = Event.objects.count()
    assert apply(named).startswith("= 2 as they are")
    assert "t-4711" not in exported()
    assert apply(exported()).startswith("= 4 as they are")
    assert kinds_since(events) == []


@pytest.mark.of_app("a2a.doors.git_bus")
@pytest.mark.of_app("approvals.slack")
def test_a_git_bus_and_a_route_of_slack_are_made(apply):
    from approvals.models import SlackWorkspace

    apply(WHOLE)
    workspace = SlackWorkspace.objects.create(team_id="T0ACME", name="Acme", bot_user_id="U0BOT")
    workspace.tenants.add("acme")

    assert "!" not in apply(OPTIONAL)
    events = Event.objects.count()
    assert apply(OPTIONAL).startswith("= 2 as they are")
    assert "b-4711" not in exported()
    assert apply(exported()).startswith("= 16 as they are")
    assert kinds_since(events) == []
    call_command("verify_ledger", any_key=True, stdout=StringIO())
