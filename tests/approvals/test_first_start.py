"""The first start without anybody: one link, the first account, and four things to do."""

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
from ledger import execution
from ledger.models import Tenant, Transaction
from tests.conftest import propose

pytestmark = pytest.mark.django_db
PASSWORD = "long and unusual"
MIA = {
    "username": "mia",
    "first_name": "Mia",
    "last_name": "Frey",
    "email": "",
    "organisation": "Frey & Söhne",
    "password1": PASSWORD,
    "password2": PASSWORD,
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
    assert answer["Location"] == "/"
    assert (roles_of(user), user.is_staff, user.is_superuser) == (
        {"frey-sohne": {"operator", "approver"}},
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
    answer = Client().post(link, {**MIA, "organisation": "&", "password1": "x"})

    assert (answer.status_code, User.objects.count()) == (422, 0)
    assert "Write a name with letters or digits." in answer.content.decode()
    assert Client().get(link).status_code == 200


def cards(person: Client) -> dict[str, bool]:
    """The four things of the first day, and whether each is done; none when all are."""
    day = person.get("/").context.get("first_day")
    if day is None:
        return {}
    return {
        "try": day.has_tried,
        "tool": day.has_tool,
        "agent": day.has_agent,
        "second": day.has_second,
    }


def test_the_first_person_tries_it_alone_without_an_agent_of_their_own(mia):
    assert cards(mia) == {"try": False, "tool": True, "agent": False, "second": False}
    Tenant.objects.update(undo_seconds=0)

    opened = mia.post("/first/try", follow=True).content.decode()

    row = Transaction.objects.get()
    assert "Pretend to refund" in opened
    assert "data-approve" in opened
    answer = mia.post(f"/transactions/{row.pk}/approve", {"digest": row.intent_digest})
    assert answer.status_code == 302
    execution.commit(row.pk)
    row = Transaction.objects.get()
    assert (row.state, row.receipt[:4]) == ("committed", "try_")
    assert cards(mia)["try"]


def test_the_pretended_tool_is_in_no_list(mia, as_helpdesk):
    assert "try_it" not in mia.get("/tools/").content.decode()
    assert "try_it" not in as_helpdesk.get("/tools").content.decode()


def test_the_cards_end_with_an_agent_that_came_and_a_second_person_who_came_in(mia):
    mia.post("/first/try")
    row = Transaction.objects.get()
    mia.post(f"/transactions/{row.pk}/approve", {"digest": row.intent_digest})
    asked = propose(tenant="frey-sohne", agent="front-desk")
    body = {"digest": asked.intent_digest, "reason": "Not now."}
    mia.post(f"/transactions/{asked.pk}/reject", body)
    invited = mia.post(
        "/people/invite", {"username": "noa", "tenant": "frey-sohne", "role": "operator"}
    )
    link = invited.context["link"].removeprefix("http://localhost:8000")
    assert cards(mia) == {"try": True, "tool": True, "agent": True, "second": False}

    Client().post(link, {"new_password1": PASSWORD, "new_password2": PASSWORD})

    assert cards(mia) == {}


def test_the_cards_are_for_operators(as_alice, as_vera):
    for person in (as_alice, as_vera):
        assert person.get("/").context.get("first_day") is None
        assert person.post("/first/try").status_code == 403
