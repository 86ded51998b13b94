"""Operators trust an issuer together, and one of them switches it off."""

from __future__ import annotations

import json

import pytest

from approvals.oauth.issuer_tables import Issuer
from ledger.agents import caller_with
from ledger.events import four_eyes
from ledger.models import AgentToken, ChangeRequest, Event
from tests.oauth.workloads.conftest import CLAIMS, NAME, exchange

pytestmark = pytest.mark.django_db
PAGES = "/connections/issuers/"


@pytest.fixture
def fields(acme, helpdesk, key):
    return {
        "tenant": "acme",
        "issuer": NAME,
        "keys": json.dumps([key.public]),
        "algorithms": ["ES256"],
        "longest_minutes": "60",
        "is_active": "on",
        "rules": json.dumps([{"agent": "helpdesk", "scopes": ["propose"], "claims": CLAIMS}]),
    }


def confirm(browser, change: ChangeRequest):
    page = browser.get(f"/changes/{change.pk}/")
    assert page.status_code == 200
    return browser.post(f"/changes/{change.pk}/confirm", {"seen": change.sha256})


def test_an_issuer_counts_once_a_second_operator_has_confirmed_it(as_olga, as_otto, fields, key):
    asked = as_olga.post(f"{PAGES}new/", fields)
    assert asked.status_code == 302, asked.content
    change = ChangeRequest.objects.get(kind="issuer")
    before = exchange(key.token()).status_code

    confirm(as_olga, change)
    still = Issuer.objects.exists()
    confirm(as_otto, change)

    assert (before, still) == (400, False)
    assert exchange(key.token()).status_code == 200
    kinds = Event.objects.filter(kind__startswith="issuer_").values_list("kind", flat=True)
    assert list(kinds.order_by("pk")) == ["issuer_asked", "issuer_trusted"]
    assert NAME in as_olga.get(PAGES).text
    assert "(agent: helpdesk, claims: (" in as_olga.get("/changes/").text


def test_a_key_set_is_taken_as_a_cluster_prints_it(as_olga, as_otto, fields, key):
    as_olga.post(f"{PAGES}new/", {**fields, "keys": json.dumps({"keys": [key.public]})})

    confirm(as_otto, ChangeRequest.objects.get(kind="issuer"))

    assert exchange(key.token()).status_code == 200


def test_the_second_operator_reads_that_an_issuer_is_new_and_of_it_what_was_filled_in(
    as_olga, as_otto, fields
):
    as_olga.post(f"{PAGES}new/", fields)
    change = ChangeRequest.objects.get(kind="issuer")

    page = as_otto.get(f"/changes/{change.pk}/").text

    assert "asks to trust" in page
    assert "Rules" in page
    assert "Address of its keys" not in page


def test_what_is_empty_says_nothing(as_olga):
    page = as_olga.get(f"{PAGES}new/").content.decode()

    assert "null" not in page


def test_switching_off_takes_one_and_ends_what_was_given(as_olga, issuer, key):
    token = exchange(key.token()).json()["access_token"]

    as_olga.post(f"{PAGES}{issuer.pk}/off")

    assert caller_with(token) is None
    assert exchange(key.token()).status_code == 400
    assert Event.objects.filter(kind="issuer_switched_off").count() == 1


def test_a_change_that_was_overtaken_is_not_made(as_olga, as_otto, issuer, fields):
    fields = {**fields, "longest_minutes": "90"}
    as_olga.post(f"{PAGES}{issuer.pk}/", fields)
    change = four_eyes.waiting_for("issuer", "acme", NAME)
    as_olga.post(f"{PAGES}{issuer.pk}/off")

    confirm(as_otto, change)

    issuer.refresh_from_db()
    assert (issuer.is_active, issuer.longest_minutes) == (False, 60)


@pytest.mark.parametrize(
    "changes",
    [
        {"issuer": "http://tokens.build.example"},
        {"issuer": "https://x.example/ a"},
        {"keys": ""},
        {"keys": '[{"kty": "oct", "k": "AAAA"}]'},
        {"jwks_url": "https://tokens.build.example/keys"},
        {"keys": "", "jwks_url": "http://tokens.build.example/keys"},
        {"keys": "", "jwks_url": "https://127.0.0.1/keys"},
        {"algorithms": ["HS256"]},
        {"longest_minutes": "2000"},
        {"rules": "{}"},
        {"rules": '[{"agent": "helpdesk", "scopes": ["propose"], "claims": {"iss": "x"}}]'},
        {"rules": '[{"agent": "helpdesk", "scopes": ["propose"], "claims": {"sub": ""}}]'},
        {"rules": '[{"agent": "stranger", "scopes": ["propose"], "claims": {"sub": "x"}}]'},
        {"rules": '[{"agent": "helpdesk", "scopes": ["everything"], "claims": {"sub": "x"}}]'},
        {"rules": '[{"agent": "helpdesk", "scopes": [], "claims": {"sub": "x"}}]'},
    ],
)
def test_what_could_not_be_trusted_is_not_asked_for(as_olga, fields, stranger, changes):
    answer = as_olga.post(f"{PAGES}new/", {**fields, **changes})

    assert answer.status_code == 422
    assert not ChangeRequest.objects.exists()


def test_only_operators_of_the_tenant_see_it(as_vera, as_carol, as_olga, issuer):
    seen = [who.get(f"{PAGES}{issuer.pk}/").status_code for who in (as_olga, as_vera, as_carol)]

    assert seen[0] == 200
    assert set(seen[1:]) <= {403, 404}
    assert as_vera.post(f"{PAGES}{issuer.pk}/off").status_code == 403
    assert not AgentToken.objects.exists()
