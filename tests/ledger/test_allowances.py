"""Which tools an agent may use; what it may not use does not exist for it."""

from __future__ import annotations

import pytest

from ledger.models import Tenant, Transaction

pytestmark = pytest.mark.django_db(transaction=True)


def names(client) -> set[str]:
    return {tool["name"] for tool in client.get("/tools").json()}


def refused(answer) -> None:
    """Word for word what a tool gets that is nowhere."""
    assert (answer.status_code, answer.json()["code"]) == (404, "unknown_tool")


def test_a_new_tenant_may_use_no_tool_and_is_told_what_to_do(as_helpdesk, the_world):
    Tenant.objects.filter(slug="acme").update(tools=Tenant(slug="new").tools)

    answer = as_helpdesk.propose()

    refused(answer)
    assert "An operator allows more in the admin" in answer.json()["hint"]
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


def test_the_admin_refuses_a_name_that_no_tool_has(as_olga, olga_user, acme):
    from django.contrib.auth.models import Permission
    from django.urls import reverse

    olga_user.is_staff = True
    olga_user.save()
    olga_user.user_permissions.set(Permission.objects.filter(content_type__app_label="ledger"))
    address = reverse("admin:ledger_tenant_change", args=[acme.pk])

    wrong = as_olga.post(address, {"name": "Acme", "tools": "pay,paay"})
    assert "There is no tool named paay." in wrong.content.decode()
    assert as_olga.post(address, {"name": "Acme", "tools": "pay"}).status_code == 302
    assert Tenant.objects.get(pk=acme.pk).tools == ["pay"]
