"""The rule of two operators itself, whatever kind of change waits and whoever confirms it."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import IntegrityError
from django.db.models import F
from django.db.transaction import atomic
from django.test import Client

from approvals.people import accounts, principal_of
from ledger.errors import NotAllowed, NotFound
from ledger.events import four_eyes
from ledger.models import ChangeRequest
from ledger.principals import Surface
from ledger.tools import manifests, registrations
from tests.http_tools.conftest import OPERATOR, manifest

pytestmark = pytest.mark.django_db
ADDRESS = "https://payments.example/tools"
ADMIN: dict[str, Any] = {"via": Surface.ADMIN}


@pytest.fixture
def of_tool(acme, olga_user) -> ChangeRequest:
    """Olga wants a tool to be less strict."""
    strict = manifests.read(manifest(ADDRESS))
    registrations.register(acme, strict, by=OPERATOR, via=Surface.COMMAND)
    loose = manifests.read(manifest(ADDRESS, contract={"risk_level": "LOW"}))
    change = registrations.change(
        acme, loose, in_place_of=strict.sha256, by=principal_of(olga_user), **ADMIN
    )
    assert change is not None
    return change


@pytest.fixture
def of_role(olga_user, vera_user, otto_user) -> ChangeRequest:
    """Olga wants Vera to be an operator."""
    accounts.give_role(vera_user, "acme", "operator", by=principal_of(olga_user), **ADMIN)
    return ChangeRequest.objects.get()


@pytest.mark.parametrize("column", ["asked_by", "concerns"])
def test_the_database_refuses_a_confirmation_by_who_asked_or_is_concerned(column, of_role):
    rows = ChangeRequest.objects.filter(pk=of_role.pk)

    with pytest.raises(IntegrityError, match="takes_two"), atomic():
        rows.update(state="confirmed", ended_by=F(column))
    with pytest.raises(IntegrityError, match="takes_two"), atomic():
        rows.update(state="confirmed")

    assert ChangeRequest.objects.get().state == "waiting"


def test_no_surface_confirms_for_who_could_sign_in_as_the_first_operator(
    of_tool, acme, olga_user, otto_user
):
    """The check is part of the rule, so that a surface cannot forget it."""
    accounts.set_password(olga_user, "known to otto", by=principal_of(otto_user), **ADMIN)

    with pytest.raises(NotAllowed, match="asked for this change"):
        four_eyes.confirm(of_tool, seen=of_tool.sha256, by=principal_of(otto_user), **ADMIN)

    assert registrations.current(acme, "refund_invoice").contract.risk_level == "HIGH"


@pytest.mark.parametrize("column", ["after", "in_place_of"])
def test_a_request_that_was_rewritten_in_the_database_is_not_confirmed(
    column, of_tool, acme, otto_user
):
    other = {"after": {**of_tool.after, "address": "https://evil.example"}, "in_place_of": "x"}
    ChangeRequest.objects.update(**{column: other[column]})
    rewritten = ChangeRequest.objects.get()

    with pytest.raises(NotFound):
        four_eyes.confirm(rewritten, seen=of_tool.sha256, by=principal_of(otto_user), **ADMIN)
    with pytest.raises(NotFound):  # nor by who looked at it before
        four_eyes.confirm(of_tool, seen="0" * 64, by=principal_of(otto_user), **ADMIN)

    assert registrations.current(acme, "refund_invoice").contract.risk_level == "HIGH"


def test_what_was_not_on_the_screen_is_not_confirmed(of_tool, as_otto):
    as_otto.post(f"/changes/{of_tool.pk}/confirm")
    as_otto.post(f"/changes/{of_tool.pk}/confirm", {"seen": "0" * 64})

    assert ChangeRequest.objects.get().state == "waiting"


def test_every_kind_of_change_waits_in_the_second_operators_inbox(
    of_tool, as_olga, as_otto, as_alice
):
    address = f"/changes/{of_tool.pk}/"

    assert address in as_otto.get("/").content.decode()
    assert badge(as_otto) == 1
    (place,) = (each for each in as_otto.get(address).context["places"] if each.current)
    assert place.current.address == "desk:changes"
    for other in (as_olga, as_alice):  # whoever asked for it, and a manager
        assert address not in other.get("/").content.decode()
        assert badge(other) == 0

    as_otto.post(f"{address}confirm", {"seen": of_tool.sha256})

    assert address not in as_otto.get("/").content.decode()
    assert badge(as_otto) == 0


def badge(person: Client) -> int:
    return int(str(person.get("/").context["waiting_count"]))


def test_asking_again_is_one_request_and_asking_otherwise_replaces_it(of_tool, acme, olga_user):
    by, before = principal_of(olga_user), of_tool.in_place_of
    loose = manifests.read(of_tool.after)
    looser = manifests.read(manifest(ADDRESS, contract={"risk_level": "LOW", "retry_safe": True}))

    assert registrations.change(acme, loose, in_place_of=before, by=by, **ADMIN) == of_tool
    second = registrations.change(acme, looser, in_place_of=before, by=by, **ADMIN)

    of_tool.refresh_from_db()
    assert (of_tool.state, second.state) == ("overtaken", "waiting")
