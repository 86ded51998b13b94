"""Operators place and release legal holds in the admin; nobody else does."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Permission

from a2a.models import Task
from ledger.models import Event, Transaction

pytestmark = pytest.mark.django_db(transaction=True)
REASON = {"reason": "A claim of 2026."}


@pytest.fixture
def as_operator(olga_user, as_olga):
    olga_user.is_staff = olga_user.is_superuser = True
    olga_user.save()
    return as_olga


@pytest.fixture(params=["transaction", "task"])
def row(request, a_payment, a_task):
    return a_payment() if request.param == "transaction" else a_task()


def page_of(row, page: str = "") -> str:
    app = "ledger/transaction" if isinstance(row, Transaction) else "a2a/task"
    return f"/admin/{app}/{row.pk}/{page}/" if page else f"/admin/{app}/"


def held_at(row):
    return type(row).objects.get(pk=row.pk).legal_hold_at


def test_an_operator_places_a_hold_and_releases_it(as_operator, row):
    assert "Place a legal hold" in as_operator.get(page_of(row, "change")).content.decode()
    assert as_operator.get(page_of(row, "hold")).status_code == 200
    as_operator.post(page_of(row, "hold"), REASON)

    assert held_at(row) is not None
    event = Event.objects.get(subject=row.pk, kind__endswith="legal_hold_placed")
    assert (event.reason, event.via, event.principal[:5]) == (REASON["reason"], "admin", "user:")
    page = as_operator.get(page_of(row, "change")).content.decode()
    assert "Release the legal hold" in page
    assert page_of(row, "hold") not in page

    as_operator.post(page_of(row, "release"), {"reason": "Settled."})

    assert held_at(row) is None
    assert Event.objects.filter(subject=row.pk, kind__endswith="legal_hold_released").exists()


def test_the_list_shows_what_is_held(as_operator, row):
    def listed() -> bool:
        page = as_operator.get(f"{page_of(row)}?retention=held").content.decode()
        return str(row.pk) in page

    assert not listed()
    as_operator.post(page_of(row, "hold"), REASON)
    assert listed()


def test_without_a_reason_nothing_is_held(as_operator, row):
    as_operator.post(page_of(row, "hold"), {"reason": " "})

    assert held_at(row) is None


def test_who_is_no_operator_of_the_tenant_holds_nothing_even_as_superuser(client, vera_user, row):
    vera_user.is_staff = vera_user.is_superuser = True
    vera_user.save()
    client.force_login(vera_user)

    client.post(page_of(row, "hold"), REASON)

    assert held_at(row) is None


def test_another_tenants_rows_are_not_there(client, carol_user, row):
    carol_user.is_staff = True
    carol_user.save()
    carol_user.user_permissions.set(Permission.objects.all())
    client.force_login(carol_user)

    assert client.post(page_of(row, "hold"), REASON).status_code == 404
    assert held_at(row) is None


def test_the_desk_shows_a_hold(as_operator, as_alice, row):
    as_operator.post(page_of(row, "hold"), REASON)
    place = "tasks" if isinstance(row, Task) else "transactions"

    assert "Under a legal hold" in as_alice.get(f"/{place}/{row.pk}/").content.decode()
