"""Which tools an agent may use; what it may not use does not exist for it."""

from __future__ import annotations

import json

import pytest
from django.core.management import call_command
from django.urls import reverse

from ledger.models import AgentToken, Event, Tenant, Transaction
from ledger.proof.audit import verification

pytestmark = pytest.mark.django_db


def last_change(kind: str) -> tuple[str, str, dict]:
    """Who made the newest change of that kind, of what, and what it changed."""
    event = Event.objects.filter(kind=kind).order_by("pk").last()
    details = json.loads(event.details)
    return event.principal, details["subject"], details


def names(client) -> set[str]:
    return {tool["name"] for tool in client.get("/tools").json()}


def refused(answer) -> None:
    """Word for word what a tool gets that is nowhere."""
    assert (answer.status_code, answer.json()["code"]) == (404, "unknown_tool")


def test_a_new_tenant_may_use_no_tool_and_is_told_what_to_do(as_helpdesk, the_world):
    Tenant.objects.filter(slug="acme").update(tools=Tenant(slug="new").tools)

    answer = as_helpdesk.propose()

    refused(answer)
    assert "An operator allows more on the desk" in answer.json()["hint"]
    assert names(as_helpdesk) == set()
    assert (the_world.plans, Transaction.objects.count()) == (0, 0)


def test_an_agent_uses_those_tools_of_its_tenant_that_are_its_own(as_helpdesk, helpdesk):
    Tenant.objects.filter(slug="acme").update(tools=["pay", "look_up"])
    helpdesk.tools = ["pay", "launch"]
    helpdesk.save()

    assert names(as_helpdesk) == {"pay"}
    assert as_helpdesk.propose("pay").status_code == 201
    refused(as_helpdesk.propose("launch", arguments={"rocket": "r1"}))
    refused(as_helpdesk.post("/tools/look_up/call", {"arguments": {"word": "a"}}))


def test_one_tenants_tools_say_nothing_to_another(as_helpdesk, stranger, agent_client):
    Tenant.objects.filter(slug="globex").update(tools=["launch"])
    as_stranger = agent_client(stranger)

    forbidden, missing = as_stranger.get("/tools/pay"), as_stranger.get("/tools/nothing")

    assert names(as_stranger) == {"launch"}
    refused(forbidden)
    texts = [answer.content.decode() for answer in (forbidden, missing)]
    assert texts[0].replace("pay", "nothing") == texts[1]


def test_a_token_may_be_for_one_tool_only(helpdesk, agent_client):
    narrow = agent_client(helpdesk, ("propose:pay",))

    assert names(narrow) == {"pay"}
    proposed = narrow.propose("pay")
    assert proposed.status_code == 201
    refused(narrow.propose("launch", arguments={"rocket": "r1"}))
    here = f"/transactions/{proposed.json()['transaction_id']}"
    assert narrow.post(f"{here}/cancel").status_code == 200


def test_without_the_scope_there_are_no_tools(helpdesk, agent_client):
    assert names(agent_client(helpdesk, ("read_all",))) == set()


PACE = {
    "name": "Acme",
    "fast_approvals": "5",
    "undo_seconds": "5",
    "signing_key_hours": "24",
    "initial-tools": ["*"],
}
PACE |= {"time_zone": "UTC", "initial-time_zone": "UTC"}


def test_a_tenant_is_allowed_no_name_that_no_tool_has(as_olga, acme):
    address = reverse("desk:organisation", args=[acme.pk])

    wrong = as_olga.post(address, {**PACE, "tools": ["pay"], "further_tools": "paay"})
    assert wrong.status_code == 422
    assert "There is no tool named paay." in wrong.content.decode()
    assert as_olga.post(address, {**PACE, "tools": ["pay"]}).status_code == 302
    assert Tenant.objects.get(pk=acme.pk).tools == ["pay"]


def test_every_change_of_what_a_tenant_or_an_agent_may_use_is_sealed(
    as_olga, olga_user, acme, helpdesk
):
    form = {**PACE, "initial-name": "Acme", "tools": ["pay"]}
    form |= {"initial-fast_approvals": "5", "initial-undo_seconds": "5"}
    as_olga.post(reverse("desk:organisation", args=[acme.pk]), form)
    form = {
        "name": helpdesk.name,
        "tools": ["pay", "launch"],
        "initial-tools": ["*"],
        "is_active": "on",
        "review_percent": "10",
    }
    as_olga.post(reverse("desk:agent", args=[helpdesk.pk]), form)

    olga = f"user:{olga_user.pk}"
    who, what, details = last_change("tenant_changed")
    assert (who, what, details["edits"]) == (olga, "tenant:acme", {"tools": [["*"], ["pay"]]})
    who, what, details = last_change("agent_changed")
    assert (who, what) == (olga, "agent:acme/helpdesk")
    assert details["edits"] == {"tools": [["*"], ["pay", "launch"]]}
    verification.verify()


def test_so_is_what_a_command_allows_and_what_a_token_is_for(acme, capsys):
    Tenant.objects.update(tools=[])

    call_command("issue_token", tenant="acme", agent="new", tool=["pay"], scope=["propose:pay"])

    who, what, details = last_change("tenant_changed")
    assert who.startswith("system:command")
    assert (what, details["edits"]) == ("tenant:acme", {"tools": [[], ["pay"]]})
    who, what, details = last_change("token_issued")
    assert (what, details["scopes"]) == ("agent:acme/new", ["propose:pay"])


@pytest.mark.parametrize(
    ("scopes", "further", "why"),
    [
        ([], "propose:paay", "There is no tool named paay."),
        (["propose"], "propose:pay", "The scope propose is for every tool: untick it."),
        ([], "", "Without any right a token is good for nothing."),
    ],
)
def test_a_narrowed_token_that_narrows_nothing_is_not_issued(
    as_olga, helpdesk, scopes, further, why
):
    form = {"scopes": scopes, "further_scopes": further}

    answer = as_olga.post(reverse("desk:agent-token", args=[helpdesk.pk]), form)

    assert why in answer.content.decode()
    assert not AgentToken.objects.exists()


def test_an_operator_issues_a_token_for_one_tool(as_olga, helpdesk):
    form = {"scopes": ["submit"], "further_scopes": "propose:pay"}

    as_olga.post(reverse("desk:agent-token", args=[helpdesk.pk]), form)

    assert AgentToken.objects.get().scopes == ["submit", "propose:pay"]
    assert last_change("token_issued")[2]["scopes"] == ["submit", "propose:pay"]
