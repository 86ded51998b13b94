"""Whoever has the token, or a part of the directory, gets no further than one operator would."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command

from approvals.models import Membership
from approvals.people import accounts, principal_of
from approvals.scim import checks
from approvals.scim.models import Entry
from tests.scim.conftest import PATCH, TOKEN, USER, Directory

OFF = {"op": "replace", "path": "active", "value": False}
ON = {"op": "replace", "path": "active", "value": True}


def is_open(person: User) -> bool:
    return User.objects.get(pk=person.pk).is_active


@pytest.mark.parametrize("token", ["", "x" * 34, TOKEN[:-1], TOKEN + "x", TOKEN.upper(), "\u00ff"])
def test_another_token_gets_nothing(directory, token):
    other = Directory(token)
    other.ask("GET", "Users")

    assert other.answer.status_code == 401
    assert TOKEN not in other.answer.content.decode()


def test_the_token_opens_nothing_else_and_no_session_opens_this(directory, as_olga, client):
    bearer = {"Authorization": f"Bearer {TOKEN}"}

    assert client.get("/api/v1/tools", headers=bearer).status_code == 401
    assert "/sign-in/" in client.get("/people/", headers=bearer).headers["Location"]
    assert as_olga.get("/scim/v2/Users").status_code == 401


@pytest.mark.parametrize("name", ["operator", "approver", "acme operator", "finance", "superuser"])
def test_a_group_called_like_a_right_gives_none(directory, name):
    group = {"schemas": ["urn:ietf:params:scim:schemas:core:2.0:Group"], "displayName": name}
    directory.ask("POST", "Groups", group)

    assert directory.answer.status_code == 403
    assert directory.ask("GET", "Groups", filter=f'displayName eq "{name}"')["totalResults"] == 0


def test_no_setting_makes_operators_or_reaches_another_tenant(directory, settings, globex):
    settings.OIDC_ROLES = ["scim=Keepers:operator@acme", "scim=Others:approver@globex"]
    settings.OIDC_GROUPS = ["scim=Others:finance@globex"]
    settings.SCIM_TOKEN = "short"

    assert Directory("short").ask("GET", "Groups")["totalResults"] == 0
    assert [each.id for each in checks.directory()] == ["assent.E019"] * 3


def test_a_role_that_there_is_not_is_said_before_a_process_starts(settings):
    settings.OIDC_ROLES, settings.SCIM_TENANT = ["scim=Deciders:king@acme"], ""

    assert len(list(checks.directory())) == 2


def test_an_account_of_others_is_not_seen_changed_or_taken_over(directory, olga_user, carol_user):
    for person in (olga_user, carol_user):
        for method in ("GET", "DELETE"):
            directory.ask(method, f"Users/{person.pk}")
            assert directory.answer.status_code == 404
        assert directory.patch(f"Users/{person.pk}", OFF) == 404
        assert directory.add("Deciders", str(person.pk)) == 400
        name = person.username.upper()
        told = directory.ask("POST", "Users", {"schemas": [USER], "userName": name})
        assert (directory.answer.status_code, told["scimType"]) == (409, "uniqueness")
        assert is_open(person)
    assert directory.ask("GET", "Users")["totalResults"] == 0


def test_an_operator_links_an_account_of_our_tenant_alone(directory, vera_user, carol_user):
    call_command("scim_link", "vera")
    with pytest.raises(CommandError, match="no role in acme"):
        call_command("scim_link", "carol")
    with pytest.raises(CommandError, match="already"):
        call_command("scim_link", "vera")

    assert directory.patch(f"Users/{vera_user.pk}", OFF) == 200
    assert not is_open(vera_user)


def test_the_last_operator_stays_and_the_last_but_one_goes(directory, olga_user, otto_user):
    for person in (olga_user, otto_user):
        call_command("scim_link", person.username)
    went = directory.patch(f"Users/{otto_user.pk}", OFF)
    stayed = directory.patch(f"Users/{olga_user.pk}", OFF)

    assert (went, stayed) == (200, 409)
    assert "last operator of acme" in directory.told["detail"]
    assert (is_open(otto_user), is_open(olga_user)) == (False, True)


def test_the_last_superuser_stays(directory, vera_user):
    call_command("scim_link", "vera")
    User.objects.filter(pk=vera_user.pk).update(is_superuser=True)

    assert directory.patch(f"Users/{vera_user.pk}", OFF) == 409
    assert is_open(vera_user)


def test_an_operator_or_somebody_of_another_tenant_is_not_opened_again(
    directory, olga_user, otto_user, vera_user, globex
):
    Membership.objects.create(user=vera_user, tenant=globex, role="viewer")
    for person in (otto_user, vera_user):
        call_command("scim_link", person.username)
        directory.patch(f"Users/{person.pk}", OFF)
        assert directory.patch(f"Users/{person.pk}", ON) == 403
        assert not is_open(person)


def test_whom_an_operator_closed_the_directory_does_not_open(directory, olga_user):
    key = directory.make()
    origin = {"by": principal_of(olga_user), "via": "web", "tenant": "acme"}
    accounts.set_flag(User.objects.get(pk=key), "is_active", False, **origin)
    directory.ask("DELETE", f"Users/{key}")

    assert directory.patch(f"Users/{key}", ON) == 403
    assert "by an operator" in directory.told["detail"]
    assert not User.objects.get(pk=key).is_active


@pytest.mark.parametrize(
    "wanted",
    [
        {"userName": "x" * 151},
        {"userName": "a\u202eda"},
        {"userName": "ada lovelace"},
        {"userName": "<script>"},
        {"userName": ""},
        {"userName": None},
        {"userName": {"a": 1}},
        {"emails": [{"value": "no address"}]},
        {"emails": [{"value": "a@b.example\nBcc: c@d.example"}]},
        {"emails": "ada@acme.example"},
        {"name": {"givenName": "A\u202eda"}},
        {"name": {"givenName": "x" * 151}},
        {"name": {"givenName": "Olga", "familyName": "Novak"}},
        {"name": {"givenName": "\u041elga", "familyName": "Novak"}},
        {"externalId": "x" * 256},
        {"externalId": "a\u0000b"},
        {"active": "perhaps"},
    ],
)
def test_odd_texts_make_nobody(directory, olga_user, wanted):
    body = {"schemas": [USER], "userName": "ada", "active": True, **wanted}
    told = directory.ask("POST", "Users", body)

    assert directory.answer.status_code == 400
    assert told["schemas"] == ["urn:ietf:params:scim:api:messages:2.0:Error"]
    assert list(User.objects.exclude(pk=olga_user.pk)) == []


@pytest.mark.parametrize(
    "text",
    [
        'userName sw "a"',
        'userName eq "ada" or userName eq "bea"',
        'not (userName eq "x")',
        "password pr",
        'password eq "x"',
        'user__password eq "x"',
        'userName eq "ada',
        "userName eq 1",
        'emails[value eq "x"]',
        "not (" * 99 + 'userName eq "a"' + ")" * 99,
        "",
    ],
)
def test_another_filter_than_ours_is_refused(directory, text):
    told = directory.ask("GET", "Users", filter=text)

    assert (directory.answer.status_code, told["scimType"]) == (400, "invalidFilter")


@pytest.mark.parametrize("value", ["' OR 1=1 --", "%", "_da", "\\u0000", "ad\u0430"])
def test_a_filter_is_a_value_and_nothing_else(directory, value):
    directory.make()

    found = directory.ask("GET", "Users", filter=f'userName eq "{value}"')

    assert (directory.answer.status_code, found.get("totalResults", 0)) in [(200, 0), (400, 0)]


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("Users/1", [], 400),
        ("Users/1", {"schemas": [PATCH], "Operations": []}, 400),
        ("Users/1", {"schemas": [PATCH], "Operations": [{"op": "drop", "path": "x"}]}, 400),
        ("Users/99999999999999999999", {"schemas": [PATCH], "Operations": [OFF]}, 404),
        ("Users/-1", {"schemas": [PATCH], "Operations": [OFF]}, 404),
        ("Users/..%2f..%2fapi", {"schemas": [PATCH], "Operations": [OFF]}, 404),
        ("Bulk", {}, 404),
        ("Schemas", {}, 405),
    ],
)
def test_what_is_not_understood_is_refused_in_scims_form(directory, path, body, status):
    told = directory.ask("PATCH", path, body)

    assert (directory.answer.status_code, told["status"]) == (status, str(status))


def test_a_member_that_is_nobody_changes_nobodys_groups(directory):
    key = directory.make()

    for odd in ("0", "x", "99999999999999999999", "\u0661", ""):
        assert directory.add("Deciders", key, odd) == 400
    assert Entry.objects.get(pk=key).groups == []
    assert not Membership.objects.filter(user=key, role="approver").exists()


@pytest.mark.parametrize("name", ["olg\u0430", "\u043elga", "olga.n\u043evak"])
def test_a_user_name_that_looks_like_another_makes_nobody_and_renames_nobody(
    directory, olga_user, name
):
    """Whoever has no other name is shown by it."""
    directory.ask("POST", "Users", {"schemas": [USER], "userName": name})
    made = directory.answer.status_code
    key = directory.make()
    renamed = directory.patch(f"Users/{key}", {"op": "replace", "path": "userName", "value": name})

    assert (made, renamed) == (400, 400)
    assert {each.username for each in User.objects.all()} == {"olga", "ada"}


def test_an_operator_who_never_came_in_does_not_stand_in_for_the_last(
    directory, olga_user, otto_user
):
    User.objects.filter(pk=otto_user.pk).update(password="!")
    call_command("scim_link", "olga")

    assert directory.patch(f"Users/{olga_user.pk}", OFF) == 409
    assert is_open(olga_user)


@pytest.mark.parametrize("name", ["deciders", "DECIDERS", "\uff24eciders"])
def test_a_group_that_is_called_almost_like_ours_is_another(directory, name):
    """In some directories anybody makes a group; it is pushed to the one with its name."""
    assert directory.ask("GET", "Groups", filter=f'displayName eq "{name}"')["totalResults"] == 0
