"""What must not work, however it is asked."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
from django.core.exceptions import ValidationError
from django.db import connections as databases
from django.db.models.functions import Now
from django.db.transaction import atomic
from django.test import Client as Browser

from approvals.oauth import connections
from approvals.oauth.models import Client, Connection, RefreshToken
from ledger.agents import caller_with
from ledger.models import Agent, AgentToken
from ledger.principals import Surface
from tests.oauth.conftest import Program

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


@pytest.mark.parametrize("length", [1, 42, 44, 129, 5000])
def test_a_challenge_that_is_no_hash_gives_no_code_and_connects_nothing(program, own_agent, length):
    said = program.answered(own_agent, code_challenge="a" * length)

    assert (said["error"], "code" in said) == ("invalid_request", False)
    assert not Connection.objects.exists()


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


def test_no_error_shows_what_was_sent_as_a_page(program, own_agent):
    answer = program.refresh(program.signed_in(own_agent), resource="<a href=//x.example>Sign in")

    assert "<a href" in answer.text
    assert answer["Content-Type"] == "application/json"


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


ELSEWHERE = "https://attacker.example/callback"


@pytest.fixture
def unknown(browser_of_vera):
    """A program that came by itself, and is sent back to an address of its own."""
    Client.objects.create(
        name="Code Helper" + " " * 240,
        client_id="came-by-itself",
        redirect_uris=f"{ELSEWHERE} http://localhost:7777/callback",
        client_type=Client.CLIENT_PUBLIC,
        authorization_grant_type=Client.GRANT_AUTHORIZATION_CODE,
        registration_source=Client.RegistrationSource.DCR,
    )
    return Program(browser_of_vera, "came-by-itself")


@pytest.mark.parametrize(
    "changes", [{"scope": "decide"}, {"resource": "https://x.example"}, {"code_challenge": None}]
)
def test_a_link_leads_nobody_to_the_page_of_a_program_that_came_by_itself(unknown, changes):
    page = unknown.consent_page(redirect_uri=ELSEWHERE, **changes)

    assert page.status_code == 400
    assert "cannot be connected" in page.text
    assert unknown.consent_page(**changes).status_code == 302  # to a program of this computer


def test_a_link_leads_no_stranger_there_either(unknown):
    unknown.browser = Browser()

    assert unknown.consent_page(redirect_uri=ELSEWHERE, prompt="none").status_code == 400


def test_whose_agent_it_is_stays_in_the_name_whatever_the_program_calls_itself(
    unknown, acme, vera_user
):
    acme.own_agent_tools = ["pay"]
    acme.save()

    unknown.signed_in("new:acme")

    assert Agent.objects.get(kept_by=f"user:{vera_user.pk}").name == "Code Helper of Vera Lind"


@pytest.mark.parametrize(
    "named",
    [
        {"client_id": "https://cl\u0430ude.ai/client.json"},
        {"redirect_uris": "https://cl\u0430ude.ai/callback"},
    ],
)
def test_no_address_looks_like_another_by_foreign_letters(unknown, named):
    row = Client.objects.get()
    for name, value in named.items():
        setattr(row, name, value)

    with pytest.raises(ValidationError, match="ASCII"):
        row.clean()


def test_disconnecting_beside_a_refresh_ends_it(program, own_agent):
    program.signed_in(own_agent)
    row, held, may_go_on = Connection.objects.get(), threading.Event(), threading.Event()

    def refresh() -> None:
        try:
            with atomic():
                RefreshToken.objects.select_for_update().get(connection=row)
                held.set()
                may_go_on.wait(10)
                RefreshToken.objects.create(connection=row, user=row.person, application=row.client)
        finally:
            databases.close_all()

    def end() -> None:
        try:
            own = Connection.objects.filter(pk=row.pk)
            connections.end(own, by=connections.TOKEN_ENDPOINT, via=Surface.SYSTEM)
        finally:
            databases.close_all()

    refreshing, ending = threading.Thread(target=refresh), threading.Thread(target=end)
    refreshing.start()
    held.wait(10)
    ending.start()
    ending.join(0.5)  # it waits for the token by now
    may_go_on.set()
    refreshing.join()
    ending.join()

    row.refresh_from_db()
    assert row.ended_at is not None
    assert RefreshToken.objects.count() == 2
