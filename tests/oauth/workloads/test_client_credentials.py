"""Clients that are agents by themselves, with a secret."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client as Browser

from approvals import asgi
from approvals.oauth.models import Client
from ledger.agents import caller_with
from ledger.models import AgentToken
from tests.conftest import signed_in
from tests.oauth.workloads.conftest import fail_often, failures_left

pytestmark = pytest.mark.django_db
SECRET = "a-secret-that-nobody-guesses"


@pytest.fixture
def client_of_helpdesk(helpdesk):
    return Client.objects.create(
        name="Refunds",
        client_id="refunds",
        client_secret=SECRET,
        client_type=Client.CLIENT_CONFIDENTIAL,
        authorization_grant_type=Client.GRANT_CLIENT_CREDENTIALS,
        agent=helpdesk,
    )


def ask(secret: str = SECRET, **fields):
    body = {
        "grant_type": "client_credentials",
        "client_id": "refunds",
        "client_secret": secret,
        "scope": "propose",
        **fields,
    }
    return Browser().post("/oauth/token", body)


def test_a_client_gets_a_token_of_its_agent(client_of_helpdesk):
    answer = ask()

    assert answer.status_code == 200, answer.content
    assert "refresh_token" not in answer.json()
    caller = caller_with(answer.json()["access_token"])
    assert str(caller.principal) == "agent:acme/helpdesk"
    assert caller.scopes == {"propose"}


def test_a_client_never_decides(client_of_helpdesk):
    assert ask(scope="decide").json()["error"] == "invalid_scope"
    assert not AgentToken.objects.exists()


def test_a_client_that_is_switched_off_gets_nothing(client_of_helpdesk):
    Client.objects.update(is_active=False)

    assert ask().json()["error"] == "invalid_client"


def test_an_agent_that_is_switched_off_ends_its_clients_tokens_and_gets_no_more(
    client_of_helpdesk, helpdesk
):
    token = ask().json()["access_token"]

    helpdesk.is_active = False
    helpdesk.save()

    assert caller_with(token) is None
    assert ask().json()["error"] == "invalid_client"
    assert AgentToken.objects.count() == 1


def test_wrong_secrets_are_limited_and_then_the_right_one_is_not_looked_at(client_of_helpdesk):
    fail_often()

    answer = ask()

    assert answer.status_code == 429
    assert answer["Retry-After"]
    assert not AgentToken.objects.exists()


def test_a_wrong_secret_counts_and_a_right_one_does_not(client_of_helpdesk):
    bucket = failures_left()
    before = bucket.level

    right = ask().status_code, bucket.level
    wrong = ask("wrong").status_code, bucket.level < before

    assert (right, wrong) == ((200, before), (401, True))


def test_no_other_request_gives_the_attempts_back(client_of_helpdesk):
    bucket = failures_left()
    before = bucket.level
    device = {"grant_type": "urn:ietf:params:oauth:grant-type:device_code", "device_code": "x"}

    ask("wrong")
    answer = ask(**device)

    assert answer.status_code == 404
    assert bucket.level <= before - 1.9


def test_nobody_guesses_secrets_where_tokens_are_revoked(client_of_helpdesk):
    fail_often()
    guess = {"client_id": "refunds", "client_secret": SECRET, "token": "x"}

    assert Browser().post("/oauth/revoke", guess).status_code == 429


@pytest.fixture
def as_superuser(alice_user):
    User.objects.filter(pk=alice_user.pk).update(is_staff=True, is_superuser=True)
    return signed_in(alice_user)


def test_an_agent_without_a_secret_is_not_registered(as_superuser, helpdesk):
    fields = {"name": "R", "client_id": "r", "agent": helpdesk.pk, "is_active": "on"}

    page = as_superuser.post("/admin/oauth/client/add/", {**fields, "client_secret": ""})

    assert "cannot be empty" in page.text
    assert not Client.objects.exists()


def test_in_the_admin_it_stays_the_agent_and_can_be_switched_off(as_superuser, client_of_helpdesk):
    page = f"/admin/oauth/client/{client_of_helpdesk.pk}/change/"
    kept = {"name": "Refunds", "redirect_uris": "https://x.example/cb", "is_active": "on"}

    assert as_superuser.post(page, kept).status_code == 302
    assert ask().status_code == 200
    assert as_superuser.post(page, {"name": "Refunds"}).status_code == 302
    assert ask().json()["error"] == "invalid_client"
    assert not AgentToken.objects.exists()


def test_secrets_are_hashed_where_they_delay_no_page():
    assert asgi._hashes(asgi.TOKEN)
    assert asgi.TOKEN not in asgi.HASHING  # people sign in beside it
