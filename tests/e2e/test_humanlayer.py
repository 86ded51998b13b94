"""A call of a HumanLayer client on the desk: who runs it, what was not sent, how it is refused."""

from __future__ import annotations

import httpx
import pytest
from playwright.sync_api import expect

from a2a.doors.humanlayer.calls import bindings
from ledger.models import AgentToken
from ledger.principals import Principal

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.browser,
    pytest.mark.usefixtures("alice_user", "bob_user", "olga_user"),
]
OPTIONS = [{"name": "later", "title": "Not now", "prompt_fill": "Not now, ask tomorrow"}]


def test_the_card_says_who_runs_it_and_a_button_fills_in_the_clients_reason(
    desk_of, product, helpdesk
):
    token = AgentToken.issue(helpdesk, scopes=["propose"])[1]
    headers = {"Authorization": f"Bearer {token}"}
    calls = f"{product.url}/humanlayer/v1/function_calls"
    spec = {"fn": "drop_table", "kwargs": {}, "reject_options": OPTIONS}
    sent = httpx.post(
        calls, json={"call_id": "call-1", "spec": spec}, headers=headers, timeout=30
    ).json()
    alice = desk_of("alice")

    alice.goto(sent["assent"]["url"])
    expect(alice.get_by_text("The agent runs this itself; no receipt comes back.")).to_be_visible()
    expect(alice.get_by_text("The client did not send the arguments.").first).to_be_visible()
    alice.get_by_role("button", name="Reject").first.click()
    alice.get_by_role("button", name="Not now, ask tomorrow").click()
    alice.get_by_role("dialog").get_by_role("button", name="Reject").click()
    expect(alice.locator("#item .state")).to_contain_text("Rejected by you")

    status = httpx.get(f"{calls}/call-1", headers=headers, timeout=30).json()["status"]
    assert (status["approved"], status["comment"]) == (False, "Not now, ask tomorrow")
    assert status["reject_option_name"] == "later"


def test_the_card_of_a_bound_function_says_that_assent_carries_it_out(
    desk_of, product, helpdesk, acme
):
    by = Principal("user", "olga", "Olga Novak")
    bindings.bind(acme, None, "send_money", "scuttle", by=by, via="admin")
    token = AgentToken.issue(helpdesk, scopes=["propose"])[1]
    headers = {"Authorization": f"Bearer {token}"}
    calls = f"{product.url}/humanlayer/v1/function_calls"
    spec = {"fn": "send_money", "kwargs": {"rocket": "ariane"}}
    body = {"call_id": "call-1", "spec": spec}
    sent = httpx.post(calls, json=body, headers=headers, timeout=30).json()
    alice = desk_of("alice")

    alice.goto(sent["assent"]["url"])

    own = alice.get_by_text("Assent carries this out; the agent's own function does not run.")
    expect(own).to_be_visible()
    expect(alice.get_by_text("send_money")).to_be_visible()
    expect(alice.get_by_text("The agent runs this itself")).to_have_count(0)
