"""Tools that do not answer, as managers and operators are told of them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import Permission
from django.db.models.functions import Now
from django.urls import reverse

from approvals import metrics
from ledger.models import RegisteredTool, Transaction
from ledger.tools import silent_addresses
from ledger.tools.silent_addresses import Address
from tests.http_tools import conftest as http_tools

pytestmark = pytest.mark.django_db(transaction=True)

service, registered = http_tools.service, http_tools.registered


def make_silent(address: Address) -> None:
    for _ in range(3):
        silent_addresses.note(address, is_silence=True)


def words(answer) -> str:
    return " ".join(answer.content.decode().split())


def item(client, row: Transaction) -> str:
    return words(client.get(reverse("desk:transaction", args=[row.pk])))


def test_an_item_says_that_it_waits_for_its_service(approved, as_alice):
    row = approved()
    assert "does not answer" not in item(as_alice, row)

    make_silent(Address("acme", "pay", True))

    page = item(as_alice, row)
    assert "<bdi>pay</bdi> does not answer" in page
    assert "3 calls in a row timed out" in page


@pytest.mark.parametrize("state", ["prepared", "committing"])
def test_an_item_that_waits_for_no_call_says_nothing_of_it(state, approved, as_alice):
    row = approved()
    Transaction.objects.filter(pk=row.pk).update(state=state)
    make_silent(Address("acme", "pay", True))

    assert "does not answer" not in item(as_alice, row)


def test_operators_see_silent_addresses_of_their_tenants(as_olga, globex):
    make_silent(Address("acme", "pay.example", True))
    make_silent(Address("acme", "plans.example", False))
    make_silent(Address("globex", "secret.example", True))

    page = words(as_olga.get("/ops/"))

    assert "<bdi>pay.example</bdi> (acme)" in page
    assert "What was signed off for it waits." in page
    assert "Meanwhile its tools can neither plan, nor look up, nor read." in page
    assert "secret.example" not in page


def test_operators_see_which_tools_calls_are_late(approved, as_olga):
    at_work, waiting, fresh = approved(), approved(), approved("order", item="rope")
    rows = Transaction.objects.filter(pk__in=[at_work.pk, waiting.pk])
    rows.update(decided_at=Now() - timedelta(seconds=60))
    rows.filter(pk=at_work.pk).update(state="committing", lease_expires_at=Now())

    page = words(as_olga.get("/ops/"))

    assert "1 at work, 1 waiting, the oldest signed off" in page
    assert f"<bdi>{fresh.tool}</bdi> (acme)" not in page
    late = metrics.gathered()["assent_late_calls"]
    assert late.of(tool="acme/pay", state="at_work") == 1
    assert late.of(tool="acme/pay", state="waiting") == 1


def test_metrics_name_silent_addresses_by_kind_of_call(acme):
    make_silent(Address("acme", "pay.example", True))

    silent = metrics.gathered()["assent_silent_addresses"]

    assert silent.of(address="acme/pay.example", calls="acting") == 3


def test_the_page_of_a_tool_says_that_its_service_does_not_answer(
    registered, service, as_olga, olga_user
):
    olga_user.is_staff = True
    olga_user.save()
    olga_user.user_permissions.set(Permission.objects.filter(content_type__app_label="ledger"))
    registered()
    row = RegisteredTool.objects.get()
    page = reverse("desk:tool", args=[row.pk])
    assert "does not answer" not in words(as_olga.get(page))

    make_silent(Address("acme", f"127.0.0.1:{service.port}", True))

    assert f"<bdi>127.0.0.1:{service.port}</bdi> does not answer" in words(as_olga.get(page))
