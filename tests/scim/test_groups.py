"""The directory's groups give the roles and groups that the settings name for them."""

from __future__ import annotations

import json

import pytest
from django.contrib.auth.models import User

from approvals.models import Membership
from approvals.people import company_sign_in
from ledger.models import Event, GroupMember


def roles_of(key: str) -> list[str]:
    return sorted(Membership.objects.filter(user=key).values_list("role", flat=True))


def is_in_finance(key: str) -> bool:
    return GroupMember.objects.filter(person=f"user:{key}", removed_at=None).exists()


REMOVALS = {
    "Entra": lambda key: {"op": "Remove", "path": "members", "value": [{"value": key}]},
    "Okta": lambda key: {"op": "remove", "path": f'members[value eq "{key}"]'},
    "all": lambda key: {"op": "replace", "path": "members", "value": []},
    "whole": lambda key: {"op": "remove", "path": "members"},
}


@pytest.mark.parametrize("dialect", REMOVALS)
def test_a_role_comes_and_goes_with_the_group(directory, dialect):
    key = directory.make()

    assert directory.add("Deciders", key) == 200
    assert roles_of(key) == ["approver", "viewer"]
    assert directory.patch(directory.group("Deciders"), REMOVALS[dialect](key)) == 200
    assert roles_of(key) == ["viewer"]


def test_a_removal_leaves_the_others(directory):
    ada, bea = directory.make("ada"), directory.make("bea")
    directory.add("Deciders", ada, bea)
    directory.patch(directory.group("Deciders"), REMOVALS["Entra"](ada))

    told = directory.ask("GET", directory.group("Deciders"))
    assert [each["value"] for each in told["members"]] == [bea]
    assert roles_of(bea) == ["approver", "viewer"]


def test_okta_puts_the_whole_group(directory):
    ada, bea = directory.make("ada"), directory.make("bea")
    directory.add("Deciders", ada)
    address = directory.group("Deciders")
    body = directory.ask("GET", address)
    directory.ask("PUT", address, {**body, "members": [{"value": bea, "display": "bea"}]})
    named = directory.patch(address, {"op": "replace", "value": {"displayName": "Deciders"}})

    assert (roles_of(ada), roles_of(bea)) == (["viewer"], ["approver", "viewer"])
    assert named == 200


def test_a_group_of_the_rules_is_kept_in_step_and_sealed(directory):
    key = directory.make()
    directory.add("Money", key)
    joined = is_in_finance(key)
    directory.patch(directory.group("Money"), REMOVALS["Okta"](key))

    added = Event.objects.get(kind="group_member_added")
    assert joined
    assert not is_in_finance(key)
    assert (added.principal, json.loads(added.details)["claim"]) == ("system:scim", "scim=Money")


def test_another_group_that_gives_the_same_role_keeps_it(directory, settings):
    settings.OIDC_ROLES = ["scim=Deciders:approver@acme", "scim=Chiefs:approver@acme"]
    key = directory.make()
    directory.add("Deciders", key)
    directory.add("Chiefs", key)
    directory.patch(directory.group("Deciders"), REMOVALS["Okta"](key))

    assert roles_of(key) == ["approver", "viewer"]


def test_a_sign_in_takes_nothing_that_the_directory_gave(directory):
    key = directory.make()
    directory.add("Deciders", key)
    company_sign_in.apply_claims(User.objects.get(pk=key), {"scim": ["Deciders"], "groups": []})

    assert roles_of(key) == ["approver", "viewer"]


def test_a_claim_called_as_the_directory_gives_nothing(directory, vera_user):
    company_sign_in.apply_claims(vera_user, {"scim": "Deciders"})

    assert roles_of(vera_user.pk) == ["viewer"]
