"""A person connects a program as an agent of theirs: what it may do then, and what it never may."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client as Browser

from approvals.oauth.models import Client, Connection
from approvals.people import principal_of
from ledger.agents import caller_with
from ledger.models import Agent, AgentToken, Event, Transaction
from tests.conftest import signed_in
from tests.mcp.test_story import payment
from tests.mcp.wire import call, say

pytestmark = pytest.mark.django_db(transaction=True)


def test_what_is_proposed_with_a_sign_in_waits_as_the_agents(program, own_agent):
    tokens = program.signed_in(own_agent)

    answer = call(tokens["access_token"], "pay", payment())

    row = Transaction.objects.get()
    assert answer["structuredContent"]["status"] == "pending"
    assert row.proposed_by == "agent:acme/helpdesk"
    assert tokens["expires_in"] == 900
    assert tokens["scope"] == "propose submit"


def test_the_token_of_a_sign_in_opens_nothing_but_mcp(program, own_agent):
    token = program.signed_in(own_agent)["access_token"]

    answers = [
        Browser().get(path, headers={"Authorization": f"Bearer {token}"})
        for path in ("/api/v1/tools", "/api/v1/transactions", "/api/v1/pending", "/api/v1/tasks")
    ]

    assert [answer.status_code for answer in answers] == [401] * 4
    assert caller_with(token) is None
    assert caller_with(token, "mcp") is not None


def test_tokens_are_kept_as_their_hash_alone(program, own_agent):
    tokens = program.signed_in(own_agent)

    kept = AgentToken.objects.get()
    assert kept.is_temporary
    assert kept.token_hash == AgentToken.hash_of(tokens["access_token"])


def test_connecting_is_sealed_with_what_was_given_and_where_to(program, own_agent, vera_user):
    program.signed_in(own_agent)

    event = Event.objects.get(kind="agent_connected")
    assert event.principal == str(principal_of(vera_user))
    assert '"client":"code-helper"' in event.details
    assert '"scopes":["propose","submit"]' in event.details
    assert '"redirect_to":"http://localhost:7777/callback"' in event.details


def test_a_new_token_takes_the_place_of_the_old_one(program, own_agent):
    first = program.signed_in(own_agent)

    second = program.refresh(first).json()

    assert caller_with(first["access_token"], "mcp") is None
    assert caller_with(second["access_token"], "mcp") is not None


def test_who_disconnects_a_program_ends_its_tokens_at_once(program, own_agent):
    tokens = program.signed_in(own_agent)
    connection = Connection.objects.get()

    answer = program.browser.post(f"/account/connections/{connection.pk}/end")

    assert answer.status_code == 302
    assert say(tokens["access_token"], "tools/list").status_code == 401
    assert program.refresh(tokens).json()["error"] == "invalid_grant"
    assert Event.objects.filter(kind="agent_disconnected").count() == 1


@pytest.mark.parametrize("whose", ["person", "agent", "keeper"])
def test_what_is_switched_off_ends_its_tokens_with_the_next_request(
    program, own_agent, vera_user, alice_user, whose
):
    tokens = program.signed_in(own_agent)

    if whose == "person":
        vera_user.is_active = False
        vera_user.save()
    else:
        changed = {"is_active": False} if whose == "agent" else {"kept_by": f"user:{alice_user.pk}"}
        Agent.objects.update(**changed)

    assert say(tokens["access_token"], "tools/list").status_code == 401
    assert program.refresh(tokens).json()["error"] == "invalid_grant"


def test_a_program_that_is_switched_off_in_the_admin_ends_and_gets_no_more(
    program, own_agent, alice_user
):
    User.objects.filter(pk=alice_user.pk).update(is_staff=True, is_superuser=True)
    row, tokens = Client.objects.get(), program.signed_in(own_agent)
    kept = {"name": row.name, "redirect_uris": row.redirect_uris, "agent": ""}

    answer = signed_in(alice_user).post(f"/admin/oauth/client/{row.pk}/change/", kept)

    assert answer.status_code == 302, answer.text[-3000:]
    assert say(tokens["access_token"], "tools/list").status_code == 401
    assert program.refresh(tokens).json()["error"] == "invalid_client"
    assert program.consent_page().status_code == 400
    assert Event.objects.filter(kind__in=["client_changed", "agent_disconnected"]).count() == 2


def test_where_the_tenant_lets_people_a_new_agent_is_made_of_its_tools(program, acme, vera_user):
    acme.own_agent_tools = ["pay"]
    acme.save()

    tokens = program.signed_in("new:acme")

    made = Agent.objects.get(kept_by=str(principal_of(vera_user)))
    assert made.name == "Code Helper of Vera Lind"
    assert made.tools == ["pay"]
    assert caller_with(tokens["access_token"], "mcp").principal == made.principal
    assert Event.objects.filter(kind="agent_added").count() == 1


def test_where_the_tenant_does_not_nobody_makes_one(program, acme):
    page = program.consent_page()
    fields = {**program.asked(), "agent": "new:acme", "allow": "true"}

    assert "You keep no agent that it could become" in page.text
    assert program.browser.post("/oauth/authorize", fields).status_code == 404
    assert not Agent.objects.exists()


def test_who_does_not_connect_is_sent_back_with_that_alone(program, own_agent):
    answer = program.answered(own_agent, allow=False)

    assert answer["error"] == "access_denied"
    assert answer["state"] == "as-it-was"
    assert not Connection.objects.exists()


def test_a_program_with_a_scheme_of_its_own_is_told_too_what_was_wrong(program, own_agent):
    Client.objects.update(redirect_uris="cursor://auth/callback")

    page = program.consent_page(scope="decide", redirect_uri="cursor://auth/callback")

    assert page.status_code == 302
    assert page["Location"].startswith("cursor://auth/callback?error=invalid_scope")


def test_the_consent_page_says_who_asks_and_for_which_agent(program, own_agent):
    page = program.consent_page()

    assert "registered by an operator" in page.text
    assert "Helpdesk agent" in page.text
    assert "a program on this computer" in page.text
    assert "form-action &#x27;self&#x27;" not in page.text
    assert page["Content-Security-Policy"].count("form-action 'self' http://localhost:7777;") == 1


def test_strangers_sign_in_first_and_come_back_to_the_whole_question(program, own_agent):
    program.browser.logout()

    answer = program.consent_page()

    assert answer.status_code == 302
    assert answer["Location"].startswith("/sign-in/?next=/oauth/authorize%3F")
    assert "code_challenge" in answer["Location"]
