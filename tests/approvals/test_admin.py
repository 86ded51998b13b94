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
from tests.forgery import forge


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


def test_an_operator_is_sent_to_the_desk_to_settle_and_the_admin_has_no_form_for_it(
    as_olga, approved, the_world
):
    def fail():
        raise ConnectionError("cut")

    the_world.before = [fail]
    row = approved("launch", rocket="r1")
    execution.commit(row.pk)
    said = {"outcome": "committed", "receipt": "L-1", "reason": "They confirmed by phone."}
    address = reverse("admin:ledger_transaction_change", args=[row.pk])

    page = as_olga.get(address).content.decode()
    for verb in ("resolve", "compensate"):
        as_olga.post(address.replace("change/", f"{verb}/"), said)

    link = re.search(r'href="([^"]*)">Settle it on the desk', page)[1]
    assert link == reverse("desk:transaction", args=[row.pk])
    assert Transaction.objects.get(pk=row.pk).state == State.IN_DOUBT


def test_who_is_no_operator_of_the_tenant_is_offered_nothing_even_as_superuser(
    client, vera_user, approved
):
    vera_user.is_staff = vera_user.is_superuser = True
    vera_user.save()
    client.force_login(vera_user)
    row = approved()
    execution.commit(row.pk)

    page = client.get(reverse("admin:ledger_transaction_change", args=[row.pk])).content.decode()

    assert "On the desk</a>" in page
    assert "Undo it on the desk" not in page


def test_the_list_says_when_what_and_how_it_stands_in_few_words(as_olga, approved):
    row = approved()
    page = as_olga.get(reverse("admin:ledger_transaction_changelist")).content.decode()

    assert "<h1>Transactions</h1>" in page
    assert f"{row.created_at:%Y-%m-%d %H:%M:%S}" in page
    assert ">signed off, waiting for a worker</td>" in page
    assert re.findall(r'class="(?:sortable )?column-(\w+)', page)[:6] == [
        "when", "summary", "state_", "money", "agent", "receipt",
    ]  # fmt: skip


def test_a_transaction_has_its_events_with_seconds_and_zone_and_no_change_log(as_olga, a_payment):
    row = a_payment()
    event = Event.objects.exclude(principal="system:tests").get()

    page = as_olga.get(reverse("admin:ledger_transaction_change", args=[row.pk])).content.decode()

    assert f"{event.at:%Y-%m-%d %H:%M:%S} UTC" in page
    assert f"{row.expires_at:%Y-%m-%d %H:%M:%S} UTC" in page
    assert "historylink" not in page
    assert str(event) not in page, "the line of its name above each row"
    assert '<th class="original">' not in page


@pytest.mark.parametrize("begin", ["pay:acme:wire", "pay:acme:wire-7", "pay:"])
def test_an_operation_key_is_found_by_how_it_begins(as_olga, a_payment, begin):
    row = a_payment(reference="wire-77")
    a_payment(reference="other")

    page = as_olga.get(
        reverse("admin:ledger_transaction_changelist"), {"q": begin}
    ).content.decode()

    assert row.short_id in page
    assert page.count('class="field-summary') == (2 if begin == "pay:" else 1)
    assert reverse("desk:history") + "?q=" in page


def test_what_is_stuck_is_found_by_a_filter(as_olga, a_payment, approved, the_world):
    def listed(stuck):
        answer = as_olga.get(reverse("admin:ledger_transaction_changelist"), {"stuck": stuck})
        return {row.pk for row in answer.context["cl"].result_list}

    def fail():
        raise ConnectionError("cut")

    late, leased, gone = a_payment(), approved(), a_payment()
    the_world.before = [fail]
    doubtful = approved("launch", rocket="r1")
    execution.commit(doubtful.pk)
    hour = "clock_timestamp() - interval '1 hour'"
    for row, column in ((late, "created_at"), (late, "expires_at"), (leased, "lease_expires_at")):
        forge(f"UPDATE ledger_transaction SET {column} = {hour} WHERE id = %s", row.pk)
    forge("UPDATE ledger_transaction SET state = 'committing' WHERE id = %s", leased.pk)
    forge("UPDATE ledger_transaction SET state = 'rolling_back' WHERE id = %s", gone.pk)
    assert listed("doubt") == listed("rollback") == set()
    for row in (doubtful, gone):
        forge(f"UPDATE ledger_event SET at = {hour} WHERE subject = %s", row.pk)
    Delivery.objects.create(
        event=Event.objects.filter(subject=late.pk).first(),
        channel="webhook", recipient="x", state="given_up",
    )  # fmt: skip

    assert listed("late") == listed("given_up") == {late.pk}
    assert (listed("lease"), listed("doubt")) == ({leased.pk}, {doubtful.pk})
    assert listed("rollback") == {gone.pk}


def test_a_token_is_shown_once_rotated_and_revoked(as_olga, helpdesk):
    page = as_olga.post(reverse("desk:agent-token", args=[helpdesk.pk]), {"scopes": ["propose"]})

    token = re.search(r"data-copy>(assent_[\w-]+)</pre>", page.content.decode())[1]
    row = AgentToken.objects.get()
    listed = as_olga.get(reverse("desk:agent", args=[helpdesk.pk])).content.decode()
    assert AgentToken.hash_of(token) == row.token_hash
    assert token not in listed
    assert row.token_hash not in listed

    as_olga.post(reverse("desk:agent-token-rotate", args=[helpdesk.pk, row.pk]))
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
