"""What a directory makes, changes and closes, in the words of Entra and of Okta."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User

from approvals.models import Membership
from approvals.people import accounts
from approvals.scim.models import Entry
from ledger.events import chain_of
from ledger.models import Event
from ledger.proof.audit.verification import verify
from tests.scim.conftest import USER, Directory

ENTERPRISE = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User"


def kinds_of(key: str) -> list[str]:
    events = Event.objects.filter(subject=chain_of(f"user:{key}")).order_by("pk")
    assert {each.principal for each in events} == {"system:scim"}
    return [each.kind for each in events]


def test_whom_the_directory_makes_is_a_viewer_without_a_password(directory):
    key = directory.make(
        "Ada@acme.example",
        externalId="00u1",
        name={"givenName": "Ada", "familyName": "Lovelace"},
        emails=[{"value": "home@acme.example"}, {"value": "ada@acme.example", "primary": True}],
        password="not asked for",
        **{ENTERPRISE: {"department": "Engines"}},
    )

    person = User.objects.get(pk=key)
    roles = [(row.tenant_id, row.role) for row in Membership.objects.filter(user=person)]
    assert (person.username, person.email) == ("Ada@acme.example", "ada@acme.example")
    assert person.get_full_name() == "Ada Lovelace"
    assert not person.has_usable_password()
    assert roles == [("acme", "viewer")]
    assert kinds_of(key) == [
        "user_created",
        "role_granted",
        "user_renamed",
        "directory_entry_changed",
    ]


def test_a_directory_that_repeats_itself_makes_nobody_twice_and_seals_nothing_twice(directory):
    body = {"schemas": [USER], "userName": "ada", "externalId": "00u1", "active": True}
    key = directory.make("ada", externalId="00u1")
    sealed = kinds_of(key)
    again = directory.ask("POST", "Users", body)
    status = directory.answer.status_code
    directory.ask("PUT", f"Users/{key}", body)

    assert (status, again["scimType"]) == (409, "uniqueness")
    assert directory.answer.status_code == 200
    assert kinds_of(key) == sealed


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "Replace", "path": "active", "value": "False"},  # Entra
        {"op": "replace", "path": "active", "value": False},
        {"op": "replace", "value": {"active": False}},  # Okta
        {"op": "Add", "value": {"active": "false"}},
        {"op": "replace", "path": f"{USER}:active", "value": False},
    ],
)
def test_each_dialect_closes_an_account(directory, operation):
    key = directory.make()

    assert directory.patch(f"Users/{key}", operation) == 200
    assert directory.told["active"] is False
    assert not User.objects.get(pk=key).is_active
    assert kinds_of(key)[-1] == "user_deactivated"


def test_entra_changes_names_and_address_beside_what_nobody_keeps(directory):
    key = directory.make(emails=[{"value": "old@acme.example", "type": "work"}])
    status = directory.patch(
        f"Users/{key}",
        {"op": "Replace", "path": 'emails[type eq "work"].value', "value": "ada@acme.example"},
        {"op": "Add", "path": "name.givenName", "value": "Ada"},
        {"op": "Add", "path": "externalId", "value": "e-1"},
        {"op": "Add", "path": f"{ENTERPRISE}:department", "value": "Engines"},
        {"op": "Replace", "path": "displayName", "value": "Ada L."},
    )

    person = User.objects.get(pk=key)
    assert status == 200
    assert (person.email, person.first_name) == ("ada@acme.example", "Ada")
    assert Entry.objects.get(pk=key).external_id == "e-1"


def test_oktas_put_changes_all_that_it_names_and_leaves_the_rest(directory):
    key = directory.make("ada", name={"givenName": "Ada"}, externalId="00u1")
    told = directory.ask(
        "PUT",
        f"Users/{key}",
        {"schemas": [USER], "id": key, "userName": "ada.l", "active": False, "groups": []},
    )

    assert (told["userName"], told["active"], told["externalId"]) == ("ada.l", False, "00u1")
    assert told["name"] == {"givenName": "Ada"}


def test_a_list_is_filtered_and_paged(directory):
    keys = [directory.make(name, externalId=name.upper()) for name in ("ada", "bea", "cleo")]

    page = directory.ask("GET", "Users", startIndex=2, count=1)
    by_name = directory.ask("GET", "Users", filter='userName eq "BEA"', attributes="userName")
    by_id = directory.ask("GET", "Users", filter='externalId eq "CLEO"')
    nobody = directory.ask("GET", "Users", filter='userName eq "dora"')
    none_at_all = directory.ask("GET", "Users", count=0)

    assert (page["totalResults"], page["startIndex"], page["itemsPerPage"]) == (3, 2, 1)
    assert page["Resources"][0]["id"] == keys[1]
    assert set(by_name["Resources"][0]) == {"schemas", "id", "userName"}
    assert [each["id"] for each in by_id["Resources"]] == [keys[2]]
    assert (nobody["totalResults"], nobody["Resources"]) == (0, [])
    assert (none_at_all["totalResults"], none_at_all["Resources"]) == (3, [])


def test_the_proof_finds_the_events_of_all_that_the_directory_did(directory):
    key = directory.make(name={"givenName": "Ada"})
    directory.add("Deciders", key)
    directory.patch(f"Users/{key}", {"op": "replace", "path": "active", "value": False})

    assert verify().faults == []


def test_who_comes_back_is_let_in_again(directory):
    key = directory.make(active=False)

    closed = User.objects.get(pk=key).is_active
    directory.patch(f"Users/{key}", {"op": "replace", "path": "active", "value": True})

    assert not closed
    assert User.objects.get(pk=key).is_active


def test_an_address_stays_with_whoever_may_decide(directory):
    key = directory.make(emails=[{"value": "ada@acme.example"}])
    directory.add("Deciders", key)
    mail = {"op": "replace", "path": "emails", "value": [{"value": "thief@acme.example"}]}

    assert directory.patch(f"Users/{key}", mail) == 400
    assert directory.told["scimType"] == "mutability"
    assert User.objects.get(pk=key).email == "ada@acme.example"


def test_who_leaves_is_out_whatever_comes_with_it(directory):
    key = directory.make(emails=[{"value": "ada@acme.example"}])
    directory.add("Deciders", key)
    left = {"userName": "gone\u202e", "emails": [{"value": "no address"}], "active": False}
    told = directory.ask("PUT", f"Users/{key}", {"schemas": [USER], **left})

    person = User.objects.get(pk=key)
    assert directory.answer.status_code == 200
    assert not person.is_active
    assert (person.username, person.email) == ("ada", "ada@acme.example")
    assert told["userName"] == "ada"


def test_a_person_made_by_the_directory_comes_in_by_an_invitation(directory, as_olga, client):
    key = directory.make()
    page = as_olga.post(f"/people/{key}/link").content.decode()

    person = User.objects.get(pk=key)
    assert "/join/" in page
    assert not accounts.is_name_of_another(person, "ada lovelace")


def test_without_a_token_set_up_there_is_nothing(directory, settings):
    settings.SCIM_TOKEN = ""

    assert Directory("")._client.get("/scim/v2/Users").status_code == 404
