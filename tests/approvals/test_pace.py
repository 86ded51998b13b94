"""A brake for the tired hand: reading times are sealed, and fast approvals end in typing one."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest
from django.test import Client

from approvals.desk.strength import pace
from approvals.models import Pace
from approvals.presentation import full_display
from ledger.models import Event, Tenant, Transaction

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def decide(alice_user) -> Callable[..., object]:
    """Alice approves what she opened so many seconds before; the answer of the desk."""

    def approve(client: Client, row: Transaction, seconds: float, **fields: str) -> object:
        page = client.get(f"/transactions/{row.pk}/").content.decode()
        shown_at = int(re.search(r'name="shown" value="(\d+)\.', page)[1])
        proof = full_display._signed(row, alice_user, shown_at - int(seconds * 1000))
        said = {"digest": row.intent_digest, "shown": proof, **fields}
        return client.post(f"/transactions/{row.pk}/approve", said, headers={"HX-Request": "true"})

    return approve


def approved(row: Transaction) -> bool:
    return bool(Transaction.objects.get(pk=row.pk).state == "approved")


def test_the_time_that_an_item_was_open_is_sealed_with_the_approval(as_alice, a_payment, decide):
    row = a_payment()
    decide(as_alice, row, 7.26)

    sealed = json.loads(Event.objects.get(subject=row.pk, kind="approved").details)
    assert 7.2 <= sealed["seconds_shown"] < 17


def test_a_time_that_somebody_made_up_is_not_believed(as_alice, a_payment):
    row = a_payment()
    page = as_alice.get(f"/transactions/{row.pk}/").content.decode()
    shown_at, mac = re.search(r'name="shown" value="(\d+)\.(\w+)"', page).groups()
    earlier = f"{int(shown_at) - 60_000}.{mac}"

    for proof in (earlier, "", "0.0", "٣.x", f"{'9' * 60}.{mac}"):
        said = {"digest": row.intent_digest, "shown": proof}
        as_alice.post(f"/transactions/{row.pk}/approve", said)

    assert "seconds_shown" not in Event.objects.get(subject=row.pk, kind="approved").details


@pytest.mark.slow
def test_after_five_fast_approvals_the_next_one_is_typed(as_alice, a_payment, decide, monkeypatch):
    monkeypatch.setattr(pace, "FAST_S", 60)  # however slow this machine is
    for _ in range(5):
        row = a_payment()
        assert decide(as_alice, row, 0.4).status_code == 200
        assert approved(row)

    row = a_payment()
    page = as_alice.get(f"/transactions/{row.pk}/").content.decode()
    assert "You are fast" in page
    answer = decide(as_alice, row, 0.4)
    assert answer.status_code == 422
    assert "You are approving fast: type" in answer.content.decode()
    assert not approved(row)

    assert decide(as_alice, row, 3, typed="48.20").status_code == 200
    assert approved(row)
    following = a_payment()
    assert "You are fast" not in as_alice.get(f"/transactions/{following.pk}/").content.decode()
    assert decide(as_alice, following, 0.4).status_code == 200


def test_one_that_took_its_time_begins_anew(as_alice, a_payment, decide):
    for seconds in (0.4, 0.4, 0.4, 0.4, 5, 0.4, 0.4):
        decide(as_alice, a_payment(), seconds)

    assert Pace.objects.get().fast_in_a_row == 2


def test_the_brake_is_of_one_person(as_alice, as_bob, a_payment, decide):
    for _ in range(5):
        decide(as_alice, a_payment(), 0.4)

    assert "You are fast" not in as_bob.get(f"/transactions/{a_payment().pk}/").content.decode()


def test_a_tenant_may_do_without(as_alice, a_payment, decide):
    Tenant.objects.update(fast_approvals=0)
    for _ in range(6):
        assert decide(as_alice, a_payment(), 0.4).status_code == 200


def test_a_rejection_is_never_slowed_down(as_alice, a_payment, decide):
    for _ in range(5):
        decide(as_alice, a_payment(), 0.4)

    row = a_payment()
    said = {"digest": row.intent_digest, "reason": "No."}
    as_alice.post(f"/transactions/{row.pk}/reject", said, headers={"HX-Request": "true"})

    assert Transaction.objects.get(pk=row.pk).ending == "rejected"
