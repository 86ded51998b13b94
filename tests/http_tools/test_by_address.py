"""A tool over HTTP is added by its address, tried from its page, and its terms are a sentence."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User

from approvals.desk import decisions
from approvals.desk.strength import confirmation_word
from approvals.models import Membership, Role
from ledger import execution
from ledger.models import ChangeRequest, RegisteredTool, Tenant, Transaction
from ledger.principals import Surface
from ledger.tools import registrations
from tests.http_tools.test_pins import CONTRACT, with_promise
from tests.http_tools.test_tool_admin import operator, seen_in

pytestmark = pytest.mark.django_db


@pytest.fixture
def olga(acme: Tenant) -> Any:
    return operator("olga2", acme)


def wanted(service: Any, **changes: str) -> dict[str, str]:
    fields = {"name": "refund_invoice", "owner_service": "billing", "credential": ""}
    return {"tenant": "acme", "address": service.address, **fields, **changes}


def current() -> Any:
    return registrations.current(Tenant.objects.get(slug="acme"), "refund_invoice")


def add(olga: Any, service: Any) -> RegisteredTool:
    service.answers["contract"] = (200, with_promise(plan=False), {})
    preview = olga.post("/tools/new/", wanted(service))
    text = preview.context["preview"].manifest
    body = {"tenant": "acme", "text": preview.context["form"]["text"].value()}
    assert text.address == service.address
    olga.post("/tools/new/text/", {**body, **seen_in(preview)})
    return RegisteredTool.objects.get()


def test_its_contract_is_read_shown_and_registered_on_the_strictest_terms(olga, service, acme):
    Tenant.objects.filter(pk=acme.pk).update(tools=["pay"])
    add(olga, service)

    manifest = current()
    assert manifest.arguments == CONTRACT["json_schema"]
    assert manifest.routes == ["find_receipt"]
    assert manifest.contract.operation_key == "refund_invoice:{tenant}:{invoice}"
    terms = manifest.contract
    assert (terms.risk_level, terms.consequence_level) == ("HIGH", "IRREVERSIBLE")
    assert not ChangeRequest.objects.exists()
    assert Tenant.objects.get(pk=acme.pk).tools == ["pay", "refund_invoice"]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ((404, {}, {}), "It answered 404."),
        ((200, {**CONTRACT, "name": "other"}, {}), "It publishes the contract of"),
        ((200, {"name": "refund_invoice"}, {}), "It publishes no contract"),
    ],
)
def test_what_cannot_be_read_is_said_at_the_address(olga, service, answer, why):
    service.answers["contract"] = answer

    page = olga.post("/tools/new/", wanted(service))

    assert page.status_code == 422
    assert why in page.content.decode()
    assert not RegisteredTool.objects.exists()


def test_an_address_inside_the_network_is_not_asked(olga, service, settings):
    settings.WEBHOOK_NETWORKS = []

    page = olga.post("/tools/new/", wanted(service))

    assert page.status_code == 422
    assert service.asked == []


def test_it_is_tried_from_its_page_and_carried_out_once_signed_off(olga, service, alice_user):
    add(olga, service)
    page = olga.get("/tools/try/acme/refund_invoice/")
    fields = {node.name: "INV-7" for node in page.context["node"].children}
    fields |= {node.name: "12" for node in page.context["node"].children if node.kind == "number"}

    made = olga.post("/tools/try/acme/refund_invoice/", fields)

    row = Transaction.objects.get()
    assert made["Location"] == f"/transactions/{row.pk}/"
    assert row.proposed_by_name == "Olga2, trying"
    service.answers["commit"] = (200, {"receipt": {"id": "re_7"}}, {})
    decisions.approve(
        alice_user,
        row.pk,
        digest=row.intent_digest,
        via=Surface.WEB,
        typed=confirmation_word(row),
    )
    execution.commit(row.pk)
    assert Transaction.objects.get().receipt == "re_7"


def test_whoever_tries_it_does_not_sign_it_while_others_can(olga, service, alice_user, olga_user):

    add(olga, service)
    trying = User.objects.get(username="olga2")
    Membership.objects.create(user=trying, tenant_id="acme", role=Role.APPROVER)
    page = olga.get("/tools/try/acme/refund_invoice/")
    fields = {node.name: "12" for node in page.context["node"].children}
    olga.post("/tools/try/acme/refund_invoice/", fields)
    row = Transaction.objects.get()

    body = {"digest": row.intent_digest, "typed": confirmation_word(row)}
    olga.post(f"/transactions/{row.pk}/approve", body)

    assert Transaction.objects.get().state == "prepared"


def test_its_terms_are_changed_in_a_sentence_and_looser_ones_wait(olga, service):
    row = add(olga, service)
    page = olga.get(f"/tools/{row.pk}/")
    terms = {name: page.context["form"][name].value() for name in page.context["form"].fields}
    terms.pop("web_only")

    preview = olga.post(f"/tools/{row.pk}/terms/", {**terms, "quorum": "2", "strength": "passkey"})
    body = {"text": preview.context["form"]["text"].value()}
    olga.post(f"/tools/{row.pk}/version/", {**body, **seen_in(preview)})
    assert (current().contract.quorum, current().contract.strength) == (2, "passkey")

    terms["strength"] = "passkey"
    preview = olga.post(f"/tools/{row.pk}/terms/", {**terms, "quorum": "1"})
    body = {"text": preview.context["form"]["text"].value()}
    olga.post(f"/tools/{row.pk}/version/", {**body, **seen_in(preview)})
    assert current().contract.quorum == 2
    assert ChangeRequest.objects.get().loosens == ["contract.quorum"]
