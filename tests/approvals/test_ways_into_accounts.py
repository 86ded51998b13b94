"""Ways into other people's accounts: an address, a link, a role that comes and goes."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core import mail
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from approvals.http.middleware import roles_of
from approvals.models import Membership, Role, Visit
from approvals.people import ask_for_letter
from ledger.events import outbox
from ledger.models import ChangeRequest
from tests.approvals.test_people_page import CHOSEN, NINA, confirm_all
from tests.conftest import seal_rights

pytestmark = pytest.mark.django_db


@pytest.fixture
def letters(settings: Any) -> list[Any]:
    settings.HAS_MAIL = True
    settings.EMAIL_URL = "smtp://x"
    settings.EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"
    return mail.outbox


def person(name: str, *roles: Role, **more: Any) -> User:
    """Somebody who has come in."""
    user = User.objects.create_user(
        name, password=name, first_name=name.title(), last_login=timezone.now(), **more
    )
    for role in roles:
        Membership.objects.create(user=user, tenant_id="acme", role=role)
    seal_rights(user)
    return user


def url(name: str, user: User) -> str:
    return reverse(f"desk:{name}", args=[user.pk])


def take(client: Client, user: User, role: str, tenant: str = "acme") -> Any:
    return client.post(url("people-take-role", user), {"role": f"{tenant} {role}"}, follow=True)


def set_address(client: Client, user: User, address: str) -> None:
    form = client.get(url("person", user)).context["form"]
    sent = {name: form[name].value() or "" for name in form.fields}
    sent |= {f"initial-{name}": value for name, value in sent.items()}
    client.post(url("person", user), {**sent, "email": address})
    user.refresh_from_db()


def deliver() -> None:
    for pk in outbox.overdue():
        outbox.deliver(pk)


@pytest.mark.parametrize(
    ("role", "rights"),
    [
        (Role.VIEWER, {}),
        (Role.VIEWER, {"is_staff": True}),
        (Role.APPROVER, {}),
    ],
)
def test_whoever_has_come_in_keeps_their_own_address(as_olga, acme, role, rights):
    sam = person("sam", role, email="sam@acme.example", **rights)

    set_address(as_olga, sam, "olga@evil.example")

    assert sam.email == "sam@acme.example"


def test_an_address_is_corrected_until_the_person_comes_in_or_might_decide(as_olga, as_otto):
    as_olga.post("/people/invite", {**NINA, "role": "viewer", "email": "nina@acme.example"})
    nina = User.objects.get(username="nina")
    set_address(as_olga, nina, "nina.k@acme.example")
    assert nina.email == "nina.k@acme.example"

    as_olga.post(url("people-give-role", nina), {"role": "acme approver"})  # waits for Otto
    set_address(as_olga, nina, "olga@evil.example")

    assert nina.email == "nina.k@acme.example"


def test_one_operator_gets_no_way_into_an_account_that_two_let_decide(as_olga, as_otto, letters):
    as_olga.post("/people/invite", {**NINA, "email": "nina@acme.example"})
    answers = confirm_all(as_otto)
    nina = User.objects.get(username="nina")
    assert roles_of(nina)["acme"] == {"viewer", "approver"}
    page = answers[0].content.decode()
    link = re.search(r'value="http://[^/"]+(/join/[^"]+)"', page)[1]  # Otto's

    set_address(as_olga, nina, "olga@evil.example")
    Client().post(link, CHOSEN)
    ask_for_letter("nina")
    deliver()

    assert not [letter for letter in letters if letter.to == ["olga@evil.example"]]
    nina.refresh_from_db()
    assert nina.email == "nina@acme.example"


def test_a_link_to_a_new_password_ends_when_its_owner_is_let_decide(as_otto, acme, letters):
    vic = person("vic", Role.VIEWER, email="vic@acme.example")
    ask_for_letter("vic")
    deliver()
    link = re.search(r"https?://[^/\s]+(/\S+)", letters[0].body.split("\n\n", 1)[1])[1]

    assert Client().get(link).status_code == 200

    as_otto.post(url("people-give-role", vic), {"role": "acme approver"})

    assert Client().get(link).status_code == 410
    Client().post(link, {"new_password1": "long and unusual", "new_password2": "long and unusual"})
    vic.refresh_from_db()
    assert not vic.check_password("long and unusual")


def test_whoever_lets_decide_is_told_who_made_the_way_in(as_olga, as_otto, acme):
    invited = as_olga.post("/people/invite", {**NINA, "role": "viewer"})
    Client().post(invited.context["link"].removeprefix("http://localhost:8000"), CHOSEN)
    nina = User.objects.get(username="nina")

    told = as_otto.post(url("people-give-role", nina), {"role": "acme approver"}, follow=True)

    assert "came in by a link that Olga" in told.content.decode()


def test_nobody_is_lost_when_one_role_waits_and_the_other_goes_at_once(as_olga, as_otto):
    mia = person("mia", Role.APPROVER, Role.OPERATOR)
    take(as_olga, mia, "operator")  # waits for Otto
    take(as_olga, mia, "approver")

    confirm_all(as_otto)

    assert roles_of(mia) == {"acme": {"viewer"}}


def test_an_operator_who_gives_up_their_own_role_stays_as_a_viewer(as_olga, olga_user, as_otto):
    Membership.objects.filter(user=olga_user).exclude(role=Role.OPERATOR).delete()
    take(as_olga, olga_user, "operator")

    confirm_all(as_otto)

    assert roles_of(olga_user) == {"acme": {"viewer"}}


def test_a_role_that_stays_leaves_no_trace(as_olga, as_otto, acme):
    mia = person("mia", Role.OPERATOR)
    take(as_olga, mia, "operator")
    waiting = ChangeRequest.objects.get(state="waiting")

    as_otto.post(f"/changes/{waiting.pk}/decline", {"seen": waiting.sha256})

    assert roles_of(mia) == {"acme": {"operator"}}


def test_a_role_that_somebody_has_not_is_not_taken(as_olga, olga_user, globex):
    Membership.objects.create(user=olga_user, tenant=globex, role=Role.OPERATOR)
    mia = person("mia", Role.APPROVER)

    answer = take(as_olga, mia, "approver", "globex")

    assert roles_of(mia) == {"acme": {"approver"}}
    assert "do not have this role" in answer.content.decode()


def test_the_last_visit_is_shown_to_whoever_keeps_the_account(as_olga, acme, globex):
    mia = person("mia", Role.APPROVER)
    Visit.objects.create(user=mia, last_at=timezone.now())
    assert "last_seen" in as_olga.get(url("person", mia)).context

    Membership.objects.create(user=mia, tenant=globex, role=Role.OPERATOR)

    assert "last_seen" not in as_olga.get(url("person", mia)).context
