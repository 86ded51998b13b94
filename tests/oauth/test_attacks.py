"""What must not work, however it is asked."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db.models.functions import Now

from approvals.oauth.models import Connection, RefreshToken
from ledger.agents import caller_with
from ledger.models import AgentToken

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_code_is_exchanged_once(program, own_agent):
    code = program.answered(own_agent)["code"]

    first, second = program.exchange(code), program.exchange(code)

    assert first.status_code == 200
    assert (second.status_code, second.json()["error"]) == (400, "invalid_grant")


def test_a_code_is_worth_nothing_without_its_verifier(program, own_agent):
    code = program.answered(own_agent)["code"]

    assert program.exchange(code, code_verifier="x" * 64).json()["error"] == "invalid_grant"
    assert not AgentToken.objects.exists()


@pytest.mark.parametrize(
    "changes",
    [{"code_challenge_method": "plain"}, {"code_challenge": None, "code_challenge_method": None}],
)
def test_there_is_no_code_without_a_hashed_challenge(program, own_agent, changes):
    page = program.consent_page(**changes)

    if page.status_code == 200:  # refused once it is clicked
        answer = program.answered(own_agent, **changes)
        assert answer["error"] == "invalid_request"
    else:
        assert "error=invalid_request" in page["Location"]
    assert not Connection.objects.exists()


def test_nobody_is_sent_to_an_address_that_is_not_the_programs(program, own_agent):
    page = program.consent_page(redirect_uri="https://attacker.example/callback")

    assert page.status_code == 400
    assert "cannot be connected" in page.text
    assert "attacker.example" not in page.text


@pytest.mark.parametrize(
    "resource",
    ["https://elsewhere.example/mcp", "http://localhost:8000/api/v1", "http://localhost:8000"],
)
def test_a_person_signs_in_for_mcp_alone(program, own_agent, resource):
    page = program.consent_page(resource=resource)

    assert page.status_code == 302
    assert "error=invalid_target" in page["Location"]
    assert "state=as-it-was" in page["Location"]


def test_what_the_form_says_of_the_resource_is_checked_again(program, own_agent):
    fields = {**program.asked(), "resource": "http://localhost:8000"}

    answer = program.click(fields, own_agent)

    assert "error=invalid_target" in answer["Location"]
    assert not Connection.objects.exists()


@pytest.mark.parametrize("scope", ["decide", "propose decide", "read_all", "work", "openid"])
def test_no_sign_in_gives_more_than_proposing_and_asking(program, own_agent, scope):
    page = program.consent_page(scope=scope)

    assert page.status_code == 302
    assert "error=invalid_scope" in page["Location"]


def test_scopes_that_were_added_to_the_form_are_refused(program, own_agent):
    answer = program.click({**program.asked(), "scope": "propose decide"}, own_agent)

    assert "error=invalid_scope" in answer["Location"]
    assert not Connection.objects.exists()


def test_a_refresh_token_that_is_used_again_later_ends_the_connection(program, own_agent):
    first = program.signed_in(own_agent)
    second = program.refresh(first).json()
    RefreshToken.objects.exclude(revoked=None).update(revoked=Now() - timedelta(minutes=1))

    assert program.refresh(first).json()["error"] == "invalid_grant"
    assert caller_with(second["access_token"], "mcp") is None
    assert program.refresh(second).json()["error"] == "invalid_grant"
    assert Connection.objects.get().ended_at is not None


def test_two_processes_of_a_program_at_one_moment_get_one_token(program, own_agent):
    first = program.signed_in(own_agent)
    second = program.refresh(first).json()
    RefreshToken.objects.exclude(revoked=None).update(revoked=Now())

    assert program.refresh(first).json()["error"] == "invalid_grant"
    assert caller_with(second["access_token"], "mcp") is not None


def test_a_refresh_token_is_worth_nothing_to_another_client(program, own_agent, other_program):
    tokens = program.signed_in(own_agent)

    stolen = other_program.refresh(tokens)

    assert stolen.json()["error"] == "invalid_grant"
    assert program.refresh(tokens).status_code == 200


def test_nobody_connects_an_agent_that_somebody_else_keeps(
    program, own_agent, supervisor, alice_user
):
    supervisor.kept_by = f"user:{alice_user.pk}"
    supervisor.save()

    answer = program.click(program.asked(), f"agent:{supervisor.pk}")

    assert answer.status_code == 404
    assert not Connection.objects.exists()


def test_what_cannot_be_stored_is_refused(program, own_agent):
    assert program.exchange("a\x00b").json()["error"] == "invalid_request"
    assert program.consent_page(client_id="a\x00b").status_code == 400


def test_a_click_for_a_client_that_is_not_known_connects_nothing(program, own_agent):
    answer = program.click({**program.asked(), "client_id": "nobody"}, own_agent)

    assert answer.status_code == 400
    assert not Connection.objects.exists()


def test_another_page_cannot_click_for_the_person(program, own_agent):
    from django.test import Client as Browser

    forged = Browser(enforce_csrf_checks=True)
    forged.cookies = program.browser.cookies

    answer = forged.post(
        "/oauth/authorize", {**program.asked(), "agent": own_agent, "allow": "true"}
    )

    assert answer.status_code == 403
    assert not Connection.objects.exists()
