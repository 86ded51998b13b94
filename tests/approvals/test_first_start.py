"""The first start without anybody: one link, the first account, the tools, a token, a request."""

from __future__ import annotations

import re

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client

from approvals.http.middleware import roles_of
from approvals.local.management.commands import up
from approvals.models import SignInLink
from approvals.people.sign_in import links
from ledger.models import AgentToken, Tenant
from tests.conftest import propose

pytestmark = pytest.mark.django_db
MIA = {
    "username": "mia",
    "first_name": "Mia",
    "last_name": "Frey",
    "email": "",
    "organisation": "frey",
    "password1": "long and unusual",
    "password2": "long and unusual",
}


@pytest.fixture
def link(db) -> str:
    return links.first_start_link().removeprefix("http://localhost:8000")


@pytest.fixture
def mia(link) -> Client:
    client = Client()
    client.post(link, MIA)
    return client


def test_up_prints_a_link_while_nobody_has_an_account(db, alice_user):
    with_somebody = up.Command().banner()
    User.objects.all().delete()
    without = up.Command().banner()

    assert "/first/" not in with_somebody
    assert re.search(r"Open this link, once:\n +http://localhost:8000/first/\S{40,}/", without)


def test_the_sign_in_page_says_where_the_link_is_while_nobody_has_an_account(db):
    before = Client().get("/sign-in/").content.decode()
    User.objects.create_user("somebody")

    assert "Nobody has an account here yet." in before
    assert "Nobody has an account" not in Client().get("/sign-in/").content.decode()


def test_the_first_account_keeps_and_decides(link):
    client = Client()

    answer = client.post(link, MIA)

    user = User.objects.get()
    assert answer["Location"] == "/first/tools/"
    assert (roles_of(user), user.is_staff, user.is_superuser) == (
        {"frey": {"operator", "approver"}},
        True,
        False,
    )


def test_the_link_makes_one_account(link):
    Client().post(link, MIA)

    answer = Client().post(link, {**MIA, "username": "eve"})

    assert (answer.status_code, User.objects.count()) == (410, 1)


def test_a_link_from_before_makes_nobody_once_there_is_somebody(link, alice_user):
    answer = Client().post(link, MIA)

    assert (answer.status_code, User.objects.count()) == (409, 1)


def test_a_newer_start_ends_the_older_link(link):
    links.first_start_link()

    assert Client().get(link).status_code == 410
    assert SignInLink.objects.filter(used_at=None).count() == 1


def test_once_there_is_somebody_no_link_is_made(alice_user):
    with pytest.raises(CommandError, match="There is an account already"):
        call_command("first_link")


def test_a_weak_password_or_a_wrong_name_keeps_the_link(link):
    answer = Client().post(link, {**MIA, "organisation": "Frey & Co", "password1": "x"})

    assert (answer.status_code, User.objects.count()) == (422, 0)
    assert Client().get(link).status_code == 200


def test_the_way_leads_from_the_tools_to_a_token_and_the_first_request(mia):
    assert "<b>pay</b>" in mia.get("/first/tools/").content.decode(), "told, and not called"
    assert mia.post("/first/tools/")["Location"] == "/first/token/"
    page = mia.post("/first/token/").content.decode()
    token = re.search(r"Bearer ([^'\s]+)'", page)[1]
    waiting = mia.get("/first/waiting").content.decode()

    propose(tenant="frey", agent="first-agent")
    come = mia.get("/first/waiting").content.decode()

    assert Tenant.objects.get().tools == ["*"]
    assert AgentToken.objects.filter(token_hash=AgentToken.hash_of(token)).exists()
    assert "Waiting for your first request" in waiting
    assert ("Your first request is here." in come, 'href="/"' in come) == (True, True)


def test_a_second_token_ends_the_first(mia):
    mia.post("/first/token/")
    mia.post("/first/token/")

    assert AgentToken.objects.filter(revoked_at=None).count() == 1


def test_the_steps_are_closed_for_everybody_else(as_olga, as_alice, olga_user):
    for client in (as_olga, as_alice):
        for page in ("tools/", "token/", "waiting"):
            assert client.get(f"/first/{page}").status_code == 403
