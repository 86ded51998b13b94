"""The only operator of a tenant gives roles alone; the next one reads them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from approvals.http.middleware import roles_of
from approvals.models import Membership, Role
from approvals.people import accounts, principal_of
from ledger.events import account_changes
from ledger.models import ChangeRequest, Event
from ledger.proof.audit import verification
from tests.conftest import signed_in

pytestmark = pytest.mark.django_db
PASSWORD = "long and unusual"


def invite(client: Client, username: str, role: str = "operator") -> str:
    """Returns the path of the link."""
    body = {"username": username, "tenant": "acme", "role": role}
    page = client.post("/people/invite", body)
    return str(page.context["link"]).removeprefix("http://localhost:8000")


def come_in(link: str) -> Client:
    client = Client()
    client.post(link, {"new_password1": PASSWORD, "new_password2": PASSWORD})
    return client


def badge(person: Client) -> int:
    return int(str(person.get("/").context["waiting_count"]))


def test_what_the_only_operator_gives_counts_at_once_and_the_next_one_reads_it(as_olga):
    link = invite(as_olga, "noa")
    noa = User.objects.get(username="noa")
    assert roles_of(noa)["acme"] == {"viewer", "operator"}
    event = Event.objects.get(kind="role_granted", details__contains='"alone":true')
    assert json.loads(event.details)["role"] == "operator"
    assert badge(as_olga) == 0

    as_noa = come_in(link)

    change = ChangeRequest.objects.get(state="alone")
    address = f"/changes/{change.pk}/"
    for person in (as_olga, as_noa):  # who made it, and whom it is about
        assert "I have read it" not in person.get(address).content.decode()
        person.post(f"{address}read")
        assert badge(person) == 0
    assert ChangeRequest.objects.get(pk=change.pk).state == "alone"

    as_otto = operator_of("otto")  # by a command on the server
    assert badge(as_otto) == 1
    assert address in as_otto.get("/").content.decode()
    assert "I have read it" in as_otto.get(address).content.decode()
    as_otto.post(f"{address}read")

    assert badge(as_otto) == 0
    assert ChangeRequest.objects.get(pk=change.pk).state == "read"
    verification.verify()


def operator_of(username: str) -> Client:
    command: Any = {"by": account_changes.command_principal(), "via": "command"}
    person = accounts.invite(username, **command)
    accounts.give_role(person, "acme", Role.OPERATOR, **command)
    return signed_in(person)


def test_whoever_came_in_by_the_link_of_its_maker_has_not_read_it(as_olga):
    invite(as_olga, "manager", role="approver")
    as_puppet = come_in(invite(as_olga, "puppet"))

    for change in ChangeRequest.objects.filter(state="alone"):
        as_puppet.post(f"/changes/{change.pk}/read")

    assert set(ChangeRequest.objects.values_list("state", flat=True)) == {"alone"}


def test_a_manager_is_let_in_alone_only_while_nobody_else_decides(as_olga, alice_user):
    alice_user.last_login = timezone.now()
    alice_user.save()

    invite(as_olga, "mgr", role="approver")

    assert roles_of(User.objects.get(username="mgr"))["acme"] == {"viewer"}


def test_an_operator_whose_ways_in_were_reset_is_a_second_one_all_the_same(as_olga):
    come_in(invite(as_olga, "noa"))
    noa = User.objects.get(username="noa")
    noa.set_unusable_password()
    noa.save()

    invite(as_olga, "max")

    assert roles_of(User.objects.get(username="max"))["acme"] == {"viewer"}


def test_a_role_that_was_given_by_mistake_is_taken_back_alone(as_olga):
    invite(as_olga, "typo")
    typo = User.objects.get(username="typo")

    as_olga.post(f"/people/{typo.pk}/role/take", {"role": "acme operator"})
    assert roles_of(typo)["acme"] == {"viewer"}

    invite(as_olga, "noa")
    assert "operator" in roles_of(User.objects.get(username="noa"))["acme"]


def test_no_link_alone_into_an_account_that_decides_elsewhere(as_olga, olga_user, globex):
    pia = accounts.invite("pia", by=account_changes.command_principal(), via="command")
    for tenant, role in (("globex", Role.APPROVER), ("acme", Role.VIEWER)):
        Membership.objects.create(user=pia, tenant_id=tenant, role=role)
    Membership.objects.create(user=olga_user, tenant_id="globex", role=Role.OPERATOR)
    signed_in_otto = operator_of("otto")
    Membership.objects.create(
        user=User.objects.get(username="otto"), tenant_id="globex", role=Role.OPERATOR
    )
    Membership.objects.filter(user__username="otto", tenant="acme").delete()
    assert signed_in_otto.get("/").status_code == 200

    page = as_olga.post(f"/people/{pia.pk}/link")

    assert "/join/" not in page.content.decode()


def test_once_a_second_operator_has_come_in_it_takes_two_again(as_olga):
    come_in(invite(as_olga, "noa"))

    invite(as_olga, "max")

    assert roles_of(User.objects.get(username="max"))["acme"] == {"viewer"}
    assert ChangeRequest.objects.filter(state="waiting").count() == 1


def test_whoever_had_another_operator_once_is_not_alone(as_olga, bob_user):
    command: Any = {"by": account_changes.command_principal(), "via": "command"}
    accounts.give_role(bob_user, "acme", Role.OPERATOR, **command)
    accounts.take_role(bob_user, "acme", Role.OPERATOR, **command)

    invite(as_olga, "puppet")

    assert roles_of(User.objects.get(username="puppet"))["acme"] == {"viewer"}


def test_nobody_gives_themselves_a_role_alone(as_olga, olga_user):
    accounts.give_role(olga_user, "acme", Role.APPROVER, by=principal_of(olga_user), via="web")

    assert roles_of(olga_user)["acme"] == {"operator"}


def test_a_link_that_was_lost_is_made_anew_while_one_is_alone(as_olga):
    invite(as_olga, "noa")
    noa = User.objects.get(username="noa")

    page = as_olga.post(f"/people/{noa.pk}/link")

    as_noa = come_in(str(page.context["link"]).removeprefix("http://localhost:8000"))
    assert as_noa.get("/people/").status_code == 200
