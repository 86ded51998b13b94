"""Provisioning by the client that others use, and by the checks that are published with it."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from scim2_models import PatchOp
from scim2_tester import Status, check_server

# What RFC 7644 lets a service leave out, and where we do otherwise on purpose.
OTHERWISE = {
    "search_with_attributes",  # GET has the same
    "object_deletion",  # closed, never gone: what somebody signed stays theirs
    "check_remove_attribute",  # of `active`: nobody is neither open nor closed
    "check_add_attribute",  # an account has one address, which is its primary
    "check_replace_attribute",
}


@pytest.mark.slow
def test_the_published_checks_of_a_server_find_nothing_else(published):
    results = check_server(published, resource_types=["User"])

    faults = {each.title for each in results if each.status in {Status.ERROR, Status.CRITICAL}}
    assert len(results) > 20
    assert faults == OTHERWISE


def test_the_published_client_makes_changes_and_closes_an_account(published):
    person = published.get_resource_model("User")
    made = published.create(person(user_name="ada", external_id="00u1", active=True))
    change = {"op": "replace", "path": "name.familyName", "value": "Lovelace"}
    published.modify(person, made.id, PatchOp[person](operations=[change]))
    found = published.query(person, query_parameters={"filter": 'externalId eq "00u1"'})
    published.delete(person, made.id)

    account = User.objects.get(username="ada")
    assert found.resources[0].name.family_name == account.last_name == "Lovelace"
    assert not account.is_active
    assert not account.has_usable_password()
