"""Operators say at which address an owning service is told; its secret is shown once."""

from __future__ import annotations

import json

import pytest

from ledger.models import Event, Owner
from ledger.tools import tools_of

pytestmark = pytest.mark.django_db
LIST = "/tools/owners/"
URL = "https://hook.example/billing"


@pytest.fixture
def service(acme) -> str:
    return min(tool.contract.owner_service for tool in tools_of([acme.pk]).values())


@pytest.fixture
def owner(acme, service) -> Owner:
    return Owner.objects.create(
        tenant=acme, service=service, webhook_url=URL, webhook_secret="whsec_old"
    )


def page_of(row, verb="") -> str:
    return f"{LIST}{row.pk}/{verb}"


def secret_on(page) -> str:
    return str(page.context["secret"])


def test_a_service_is_told_with_a_secret_that_is_shown_once(as_olga, service):
    page = as_olga.post(LIST, {"tenant": "acme", "service": service, "webhook_url": URL})

    row = Owner.objects.get()
    assert secret_on(page) == row.webhook_secret
    assert row.webhook_secret.startswith("whsec_")
    assert page.context["tools"]
    assert secret_on(as_olga.get(page_of(row))) == ""
    event = Event.objects.get(kind="owner_added")
    assert json.loads(event.details)["edits"] == {"webhook_url": [None, URL]}
    assert (event.principal_name, event.via) == ("Olga Novak", "web")
    assert row.webhook_secret not in event.details


def test_another_address_and_another_secret_are_sealed(as_olga, owner):
    as_olga.post(page_of(owner), {"webhook_url": URL})
    assert not Event.objects.filter(kind__startswith="owner_").exists(), "nothing was changed"
    as_olga.post(page_of(owner), {"webhook_url": f"{URL}/2"})
    page = as_olga.post(page_of(owner, "secret"))

    owner.refresh_from_db()
    assert owner.webhook_url == f"{URL}/2"
    assert secret_on(page) == owner.webhook_secret != "whsec_old"
    kinds = Event.objects.filter(kind__startswith="owner_").order_by("pk")
    assert list(kinds.values_list("kind", flat=True)) == ["owner_changed", "owner_secret_renewed"]


def test_one_that_is_removed_is_told_no_more(as_olga, owner):
    as_olga.post(page_of(owner, "remove"))

    assert not Owner.objects.exists()
    assert Event.objects.get(kind="owner_removed").principal_name == "Olga Novak"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"service": "nobody"}, "Select a valid choice"),
        ({"webhook_url": "ftp://hook.example/"}, "without credentials"),
        ({"webhook_url": "https://me:secret@hook.example/"}, "without credentials"),
        ({"tenant": "globex"}, "Select a valid choice"),
    ],
)
def test_what_cannot_work_is_said_in_the_form(as_olga, globex, service, fields, words):
    sent = {"tenant": "acme", "service": service, "webhook_url": URL, **fields}

    page = as_olga.post(LIST, sent)

    assert page.status_code == 422
    assert words in str(page.context["form"].errors)
    assert not Owner.objects.exists()


def test_a_service_is_there_once(as_olga, owner):
    sent = {"tenant": "acme", "service": owner.service, "webhook_url": URL}

    assert "It is told already" in as_olga.post(LIST, sent).content.decode()


def test_owners_of_other_tenants_are_not_there(as_olga, as_alice, globex):
    theirs = Owner.objects.create(tenant=globex, service="x", webhook_url="https://x.example")

    assert "x.example" not in as_olga.get(LIST).content.decode()
    assert as_olga.get(page_of(theirs)).status_code == 404
    for verb in ("", "secret", "remove"):
        assert as_olga.post(page_of(theirs, verb), {"webhook_url": URL}).status_code == 404
    assert as_alice.get(LIST).status_code == 403
    assert Owner.objects.get().webhook_url == "https://x.example"


def test_an_unchanged_form_does_not_undo_what_a_colleague_set(as_olga, owner):
    page = as_olga.get(page_of(owner))
    field = page.context["form"]["webhook_url"]
    assert f'name="{field.html_initial_name}"' in page.content.decode()
    sent = {field.html_name: field.value(), field.html_initial_name: field.value()}
    Owner.objects.filter(pk=owner.pk).update(webhook_url="https://new.example/b")

    as_olga.post(page_of(owner), sent)

    owner.refresh_from_db()
    assert owner.webhook_url == "https://new.example/b"
    assert not Event.objects.filter(kind="owner_changed").exists()
