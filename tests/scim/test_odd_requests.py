"""Requests that are large, deep or broken: none fails, none holds up the desk, none keeps a door
open for who leaves."""

from __future__ import annotations

import threading
from contextlib import suppress

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import OperationalError, connections
from django.db.transaction import atomic

from approvals.scim import people
from ledger.models import Tenant
from tests.scim.conftest import USER, Directory

OFF = {"op": "Replace", "path": "active", "value": "False"}
NINES = "9" * 5000


def test_a_member_with_an_endless_number_is_nobody(directory):
    assert directory.add("Deciders", NINES) == 400


def test_a_page_beyond_all_numbers_is_empty(directory):
    directory.make()

    for begin in (2**63, 10**20):
        told = directory.ask("GET", "Users", startIndex=begin)
        assert (told["totalResults"], told["Resources"]) == (1, [])


@pytest.mark.parametrize("path", ["Users", "Groups"])
def test_more_operations_than_a_directory_sends_are_refused_before_any_is_applied(directory, path):
    key = directory.make()
    place = f"Users/{key}" if path == "Users" else directory.group("Deciders")
    each = {"op": "add", "path": "emails" if path == "Users" else "members"}
    operations = [{**each, "value": [{"value": f"{number}@a.example"}]} for number in range(1500)]

    assert directory.patch(place, *operations) == 413
    assert "100 operations" in directory.told["detail"]
    assert User.objects.get(pk=key).email == ""


@pytest.mark.django_db(transaction=True)
def test_a_long_change_of_the_directory_holds_the_account_and_not_the_tenant(acme):
    """Rules, groups and grants of the desk wait for the tenant; who opens or closes the account
    at the desk meanwhile comes after the directory, and is not overlooked."""
    key = int(Directory().make())
    seen: list[str] = []

    def desk() -> None:
        with atomic():
            seen.append(Tenant.objects.select_for_update(nowait=True).get(pk="acme").pk)
        with suppress(OperationalError), atomic():
            seen.append(User.objects.select_for_update(nowait=True).get(pk=key).username)
        connections.close_all()

    def slow(person):
        other = threading.Thread(target=desk)
        other.start()
        other.join()
        return person

    people.change(key, slow)

    assert seen == ["acme"]


@pytest.mark.parametrize(
    "beside",
    [
        {"op": "Remove", "path": "userName"},
        {"op": "Replace", "path": "name", "value": "Ada"},
        {"op": "Replace", "path": "emails", "value": "ada@acme.example"},
        {"op": "Replace", "path": "externalId", "value": 5},
        {"op": "Replace", "path": "phoneNumbers[", "value": "1"},
        {"op": "Replace", "path": "nickName", "value": "a\u0000"},
        {"op": "Replace", "path": "nickName", "value": "\ud800"},
        {"op": "Replace", "path": "id", "value": "7"},
    ],
)
def test_who_leaves_is_out_whatever_else_cannot_be_understood(directory, beside):
    key = directory.make()
    status = directory.patch(f"Users/{key}", beside, OFF)

    assert status == 200
    assert directory.told["active"] is False
    assert not User.objects.get(pk=key).is_active


@pytest.mark.parametrize("active", [False, "False"])
def test_who_leaves_by_a_broken_put_is_out(directory, active):
    key = directory.make()
    directory.ask("PUT", f"Users/{key}", {"schemas": [USER], "emails": 1, "Active": active})

    assert directory.answer.status_code == 200
    assert not User.objects.get(pk=key).is_active


def test_who_leaves_with_too_many_other_changes_is_out(directory):
    key = directory.make()
    noise = [{"op": "add", "path": "nickName", "value": "x"}] * 200

    assert (
        directory.patch(f"Users/{key}", *noise, {"op": "replace", "value": {"active": False}})
        == 200
    )
    assert not User.objects.get(pk=key).is_active


@pytest.mark.parametrize(
    "body", [[], None, {"Operations": 1}, {"Operations": [1, None]}, {"active": 0}]
)
def test_what_says_nothing_of_leaving_closes_nobody(directory, body):
    key = directory.make()
    directory.ask("PATCH", f"Users/{key}", body)

    assert directory.answer.status_code == 400
    assert User.objects.get(pk=key).is_active


def test_a_broken_request_closes_no_account_of_others(directory, olga_user):
    broken = {"op": "replace", "path": "x[", "value": 1}

    assert directory.patch(f"Users/{olga_user.pk}", broken, OFF) == 404
    assert User.objects.get(pk=olga_user.pk).is_active


def test_a_broken_request_does_not_close_the_last_operator(directory, olga_user):
    call_command("scim_link", "olga")

    assert directory.patch(f"Users/{olga_user.pk}", {"op": "replace", "path": "x["}, OFF) == 409
    assert User.objects.get(pk=olga_user.pk).is_active
