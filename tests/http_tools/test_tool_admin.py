"""Operators register tools on their pages; what loosens one takes two of them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from approvals.models import Membership, Role
from approvals.people import accounts, principal_of
from ledger.models import ChangeRequest, Event, RegisteredTool, Tenant, ToolVersion
from ledger.principals import Surface
from ledger.tools import manifests, registrations
from ledger.tools.manifests import texts
from tests.http_tools.conftest import OPERATOR, manifest

pytestmark = pytest.mark.django_db
ADDRESS = "https://payments.example/tools"
LIST = "/tools/"
NEW = "/tools/new/text/"
TODAY = datetime.now(UTC).date().isoformat()


def operator(name: str, tenant: Tenant, role: Role = Role.OPERATOR) -> Client:
    user = User.objects.create_user(name, first_name=name.title(), is_staff=True)
    labels = ["ledger", "humanlayer"]
    rights = Permission.objects.filter(content_type__app_label__in=labels)
    user.user_permissions.set(rights)
    Membership.objects.create(user=user, tenant=tenant, role=role)
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def olga(acme: Tenant) -> Client:
    return operator("olga2", acme)


@pytest.fixture
def omar(acme: Tenant) -> Client:
    return operator("omar2", acme)


def text(address: str = ADDRESS, **changes: Any) -> str:
    return texts.text_of(manifests.read(manifest(address, **changes)))


@pytest.fixture
def tool(acme: Tenant) -> RegisteredTool:
    first = manifests.read(manifest(ADDRESS))
    registrations.register(acme, first, by=OPERATOR, via=Surface.COMMAND)
    return RegisteredTool.objects.get()


def seen_in(page: Any) -> dict[str, str]:
    """What the form of the preview would send."""
    preview = page.context["preview"]
    return {"seen": preview.manifest.sha256, "in_place_of": preview.in_place_of}


def send(client: Client, address: str, body: dict[str, str]) -> Any:
    """Through the preview, as a person does."""
    return client.post(address, {**body, **seen_in(client.post(address, body))})


def current() -> Any:
    acme = Tenant.objects.get(slug="acme")
    return registrations.current(acme, "refund_invoice")


def test_a_tool_with_the_strictest_terms_is_registered_by_one_operator_after_a_preview(olga, acme):
    body = {"tenant": "acme", "text": text()}
    preview = olga.post(NEW, body)

    assert "contract.risk_level" in preview.content.decode()
    assert not RegisteredTool.objects.exists()

    answer = olga.post(NEW, {**body, **seen_in(preview)}, follow=True)

    assert "Agents get this version" in answer.content.decode()
    event = Event.objects.get(kind="tool_registered")
    assert (event.principal_name, event.via) == ("Olga2", "web")


def test_what_is_sent_must_be_what_the_preview_showed(olga, tool):
    address = f"{LIST}{tool.pk}/version/"
    seen = seen_in(olga.post(address, {"text": text(description="Other.")}))

    page = olga.post(address, {"text": text(contract={"quorum": 2}), **seen})

    assert page.context["preview"].differences[0].member == "contract.quorum"
    assert current().sha256 == tool.version


def test_a_stricter_version_counts_at_once(olga, tool):
    send(olga, f"{LIST}{tool.pk}/version/", {"text": text(contract={"quorum": 2})})

    assert current().contract.quorum == 2
    assert not ChangeRequest.objects.exists()
    shown = olga.get(f"{LIST}{tool.pk}/").content.decode()
    assert "contract.quorum" in shown
    assert "First registered by Olga2" in shown


LOOSER = {
    "a lower risk": {"contract": {"risk_level": "MEDIUM"}},
    "a supervisor": {"contract": {"required_approver": "SUPERVISOR"}},
    "a way back": {"contract": {"consequence_level": "COMPENSABLE"}},
    "run again": {"contract": {"retry_safe": True}},
    "complete receipts": {"receipts_are_complete": True},
    "another host": {"address": "https://other.example/tools"},
    "another path": {"address": "https://payments.example/other"},
    "another credential": {"credential": "other"},
    "a smaller quorum": {"contract": {"quorum": 1}, "before": {"contract": {"quorum": 2}}},
    "no policy": {
        "before": {"contract": {"required_approver": "SUPERVISOR", "required_policy": "ab" * 32}},
        "contract": {"required_approver": "SUPERVISOR"},
    },
    "another policy": {
        "before": {"contract": {"required_approver": "SUPERVISOR", "required_policy": "ab" * 32}},
        "contract": {"required_approver": "SUPERVISOR", "required_policy": "cd" * 32},
    },
    "other surfaces": {"before": {"contract": {"web_only": True}}},
    "another operation key, while the old one counts for today": {
        "contract": {
            "operation_key": "refund_invoice:{tenant}:{invoice}:{note}",
            "operation_key_aliases": {"refund_invoice:{tenant}:{invoice}": TODAY},
        }
    },
    "an earlier operation key that ends": {
        "before": {"contract": {"operation_key_aliases": {"r:{tenant}:{invoice}": "2999-12-31"}}},
        "contract": {"operation_key_aliases": {"r:{tenant}:{invoice}": "2998-12-31"}},
    },
    "content that is forgotten sooner": {"contract": {"retention_s": 86_400}},
    "other arguments where agents decide": {
        "before": {"contract": {"required_approver": "SUPERVISOR"}},
        "contract": {"required_approver": "SUPERVISOR"},
        "arguments": {**manifest(ADDRESS)["arguments"], "required": ["invoice"]},
    },
}


@pytest.mark.parametrize("what", LOOSER)
def test_what_loosens_a_tool_waits_for_a_second_operator(what, acme, olga, omar):
    changes = dict(LOOSER[what])
    first = manifests.read(manifest(ADDRESS, **changes.pop("before", {})))
    registrations.register(acme, first, by=OPERATOR, via=Surface.COMMAND)
    tool = RegisteredTool.objects.get()

    send(olga, f"{LIST}{tool.pk}/version/", {"text": text(**changes)})

    assert current().sha256 == first.sha256
    change = ChangeRequest.objects.get()
    page = f"/changes/{change.pk}/"
    assert "another operator has to confirm it" in olga.get(page).content.decode()
    olga.post(f"{page}confirm", {"seen": change.sha256})
    assert current().sha256 == first.sha256

    shown = omar.get(page).content.decode()
    assert "looser" in shown
    omar.post(f"{page}confirm", {"seen": change.sha256})

    assert current().as_json() == change.after
    event = Event.objects.get(kind="tool_changed")
    assert event.principal_name == "Omar2"
    assert '"asked_by_name":"Olga2"' in event.details


def test_what_is_stricter_or_only_says_more_does_not_wait(acme, olga, tool):
    harmless = {
        "description": "Refunds it in full.",
        "routes": ["plan"],
        "contract": {"risk_level": "CRITICAL", "ttl_s": 600, "undo": "Ask billing."},
    }

    send(olga, f"{LIST}{tool.pk}/version/", {"text": text(**harmless)})

    assert not ChangeRequest.objects.exists()
    assert current().contract.risk_level == "CRITICAL"


def looser(client: Client, tool: RegisteredTool, **changes: Any) -> ChangeRequest:
    body = {"text": text(**(changes or {"contract": {"risk_level": "LOW"}}))}
    send(client, f"{LIST}{tool.pk}/version/", body)
    return ChangeRequest.objects.get(state="waiting")


def test_a_new_tool_below_the_strictest_terms_waits_and_is_listed(olga, omar, acme):
    send(olga, NEW, {"tenant": "acme", "text": text(contract={"risk_level": "LOW"})})

    assert not RegisteredTool.objects.exists()
    change = ChangeRequest.objects.get()
    assert f"/changes/{change.pk}/" in omar.get("/").content.decode()
    omar.post(f"/changes/{change.pk}/confirm", {"seen": change.sha256})
    assert current().contract.risk_level == "LOW"


def test_withdrawing_and_registering_anew_is_no_way_around(olga, tool):
    olga.post(f"{LIST}{tool.pk}/withdraw/")
    assert current() is None

    body = {"text": texts.text_of(manifests.read(manifest("https://other.example/tools")))}
    send(olga, f"{LIST}{tool.pk}/version/", body)

    assert current() is None
    assert ChangeRequest.objects.get().loosens == ["address"]


def test_a_change_of_what_somebody_changed_meanwhile_cannot_be_confirmed(olga, omar, acme, tool):
    change = looser(olga, tool)
    stricter = manifests.read(manifest(ADDRESS, contract={"quorum": 2}))
    registrations.register(acme, stricter, by=OPERATOR, via=Surface.COMMAND)

    answer = omar.post(
        f"/changes/{change.pk}/confirm", {"seen": change.sha256}, follow=True
    ).content.decode()

    assert "Somebody has changed the tool meanwhile" in answer
    assert "cannot be confirmed" in answer
    assert current().sha256 == stricter.sha256


def test_only_what_was_shown_is_confirmed(olga, omar, tool):
    first = looser(olga, tool)
    second = looser(olga, tool, contract={"risk_level": "LOW", "retry_safe": True})

    omar.post(f"/changes/{first.pk}/confirm", {"seen": first.sha256})
    omar.post(f"/changes/{second.pk}/confirm", {"seen": first.sha256})

    assert current().sha256 == tool.version
    first.refresh_from_db()
    assert first.state == "overtaken"


def test_a_declined_change_or_one_that_was_taken_back_is_over(olga, omar, tool):
    for client in (omar, olga):
        change = looser(olga, tool)
        client.post(f"/changes/{change.pk}/decline")
        omar.post(f"/changes/{change.pk}/confirm", {"seen": change.sha256})

    assert current().sha256 == tool.version
    assert Event.objects.filter(kind="tool_change_declined").count() == 2


def test_whoever_could_sign_in_as_the_first_operator_is_no_second_one(olga, omar, tool):
    change = looser(olga, tool)
    first, second = User.objects.get(username="olga2"), User.objects.get(username="omar2")
    accounts.set_password(first, "a long enough password", by=principal_of(second), via="admin")

    omar.post(f"/changes/{change.pk}/confirm", {"seen": change.sha256})

    assert current().sha256 == tool.version


@pytest.mark.parametrize("who", ["of another tenant", "an approver"])
def test_others_change_nothing(who, olga, acme, globex, tool):
    change = looser(olga, tool)
    other = operator(
        "other",
        globex if who == "of another tenant" else acme,
        Role.APPROVER if who == "an approver" else Role.OPERATOR,
    )
    body = {"text": text(contract={"quorum": 3})}

    answers = [
        other.post(f"{LIST}{tool.pk}/version/", body),
        other.get(f"{LIST}{tool.pk}/version/"),
        other.post(f"{LIST}{tool.pk}/withdraw/"),
        other.get(f"/changes/{change.pk}/"),
        other.post(f"/changes/{change.pk}/confirm", {"seen": change.sha256}),
        other.post(NEW, {"tenant": "acme", **body}),
    ]

    if who == "of another tenant":
        assert "payments.example" not in other.get(f"{LIST}{tool.pk}/").content.decode()
        assert answers.pop().status_code == 422  # the tenant is no choice of theirs
    assert {answer.status_code for answer in answers} <= {403, 404}
    assert current().sha256 == tool.version
    assert ToolVersion.objects.count() == 1


BAD = {
    "a: *b": "aliases",
    "&a [*a]": "aliases",
    "[" * 5000: "nested too deeply",
    "a: [": "not YAML",
    "just text": "an object",
    text(contract={"operation_key": "r:{tenant}"}): "E002",
    text(name="ask_a_person"): "a tool of Assent itself",
    text(name="pay"): "another name",
    text().replace("Refunds an", "Refunds \u202ean"): "manifest",
}


@pytest.mark.parametrize("wrong", BAD, ids=range(len(BAD)))
def test_what_cannot_be_registered_is_shown_with_its_reason(olga, acme, wrong):
    page = olga.post(NEW, {"tenant": "acme", "text": wrong}).content.decode()

    assert BAD[wrong] in page
    assert "Nothing was changed" in page
    assert not ToolVersion.objects.exists()


def test_what_an_owner_wrote_cannot_run_in_the_page(olga, acme):
    body = {"tenant": "acme", "text": text(description="<script>alert(1)</script>")}
    send(olga, NEW, body)
    tool = RegisteredTool.objects.get()

    for page in (olga.post(NEW, body), olga.get(f"{LIST}{tool.pk}/")):
        assert "<script>alert" not in page.content.decode()


def test_the_reserved_names_are_those_that_agents_see_over_mcp():
    from a2a.doors.mcp_server import catalogue
    from ledger import contracts

    names = {catalogue.WAIT, catalogue.CANCEL, catalogue.ASK, catalogue.ANSWER}
    assert names == contracts.RESERVED
