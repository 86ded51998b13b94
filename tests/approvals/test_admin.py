"""The ledger admin: reads everything of its tenants, changes nothing by hand."""

from __future__ import annotations

import re

import pytest
from django.contrib import admin
from django.contrib.auth.models import Permission
from django.urls import reverse

from ledger import execution
from ledger.models import AgentToken, Delivery, Event, Transaction
from ledger.states import State


@pytest.fixture
def as_olga(olga_user, as_olga):
    olga_user.is_staff = True
    olga_user.save()
    olga_user.user_permissions.set(Permission.objects.filter(content_type__app_label="ledger"))
    return as_olga


@pytest.mark.parametrize(
    "model",
    [model for model in admin.site._registry if model._meta.app_label == "ledger"],
    ids=lambda model: model.__name__,
)
def test_every_list_opens(as_olga, a_payment, model):
    a_payment()

    answer = as_olga.get(reverse(f"admin:ledger_{model._meta.model_name}_changelist"))

    assert answer.status_code == 200


def test_a_transaction_opens_with_its_history_and_cannot_be_edited(as_olga, a_payment):
    row = a_payment(reference="<script>alert(1)</script>")
    address = reverse("admin:ledger_transaction_change", args=[row.pk])

    page = as_olga.get(address)

    assert "&lt;script&gt;" in page.content.decode()
    assert "<script>alert" not in page.content.decode()
    assert as_olga.post(address, {"state": "committed"}).status_code == 403
    assert Transaction.objects.get().state == State.PREPARED


def test_search_finds_by_id_key_receipt_and_trace(as_olga, approved, as_helpdesk):
    row = approved()
    execution.commit(row.pk)
    as_helpdesk.propose(key="my-key")
    row.refresh_from_db()
    address = reverse("admin:ledger_transaction_changelist")

    for word in (str(row.pk), row.operation_key, row.receipt, "my-key"):
        page = as_olga.get(address, {"q": word}).content.decode()
        assert len(re.findall(r'class="field-summary', page)) == 1, word
    assert "field-summary" not in as_olga.get(address, {"q": "nothing-like-it"}).content.decode()


def test_another_tenants_rows_are_not_there(as_olga, globex, a_transaction):
    row = a_transaction(tenant="globex")
    listed = as_olga.get(reverse("admin:ledger_transaction_changelist"))

    assert "field-summary" not in listed.content.decode()
    opened = as_olga.get(reverse("admin:ledger_transaction_change", args=[row.pk]))
    assert opened.status_code == 302  # Django's admin says "does not exist" and goes back
    resolve = as_olga.get(reverse("admin:ledger_transaction_resolve", args=[row.pk]))
    assert resolve.status_code == 404


def test_an_operator_resolves_and_compensates_through_the_verbs(
    as_olga, as_otto, approved, the_world, otto_user
):
    def fail():
        raise ConnectionError("cut")

    the_world.before = [fail]
    row = approved("launch", rocket="r1")
    execution.commit(row.pk)
    said = {"outcome": "committed", "receipt": "L-1", "reason": "They confirmed by phone."}

    page = as_olga.get(reverse("admin:ledger_transaction_change", args=[row.pk]))
    as_olga.post(reverse("admin:ledger_transaction_resolve", args=[row.pk]), said)

    assert b"Settle by hand" in page.content
    assert Event.objects.filter(transaction=row).order_by("seq").last().kind == (
        "settlement_proposed"
    )
    otto_user.is_staff = True
    otto_user.user_permissions.set(Permission.objects.filter(content_type__app_label="ledger"))
    otto_user.save()
    as_otto.post(reverse("admin:ledger_transaction_resolve", args=[row.pk]), said)
    event = Event.objects.filter(transaction=row).order_by("seq").last()
    assert (event.kind, event.principal, event.via) == (
        "committed",
        f"user:{otto_user.pk}",
        "admin",
    )


def test_who_is_no_operator_of_the_tenant_cannot_act_even_as_superuser(client, vera_user, approved):
    vera_user.is_staff = vera_user.is_superuser = True
    vera_user.save()
    client.force_login(vera_user)
    row = approved()
    execution.commit(row.pk)

    client.post(reverse("admin:ledger_transaction_compensate", args=[row.pk]), {"reason": "x"})

    assert Transaction.objects.get(pk=row.pk).state == State.COMMITTED


def test_a_token_is_shown_once_rotated_and_revoked(as_olga, helpdesk):
    data = {"agent": helpdesk.pk, "scopes": ["propose"], "expires_at_0": "", "expires_at_1": ""}
    page = as_olga.post(reverse("admin:ledger_agenttoken_add"), data, follow=True)

    token = re.search(r"<code>(assent_[\w-]+)</code>", page.content.decode())[1]
    row = AgentToken.objects.get()
    listed = as_olga.get(reverse("admin:ledger_agenttoken_changelist")).content.decode()
    assert AgentToken.hash_of(token) == row.token_hash
    assert token not in listed
    assert row.token_hash not in listed

    as_olga.post(
        reverse("admin:ledger_agenttoken_changelist"),
        {"action": "rotate", "_selected_action": [row.pk]},
    )
    old, new = AgentToken.objects.order_by("pk")
    assert old.revoked_at
    assert list(AgentToken.objects.usable()) == [new]


def test_a_delivery_that_was_given_up_can_be_sent_again(as_olga, a_payment):
    event = Event.objects.get(transaction=a_payment())
    delivery = Delivery.objects.create(event=event, channel="webhook", state="given_up", failures=9)

    as_olga.post(
        reverse("admin:ledger_delivery_changelist"),
        {"action": "send_again", "_selected_action": [delivery.pk]},
    )

    delivery.refresh_from_db()
    assert (delivery.state, delivery.failures) == ("waiting", 0)
