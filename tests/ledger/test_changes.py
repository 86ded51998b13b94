"""Changes of accounts are sealed like everything else that happens."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection

from ledger.events import account_changes
from ledger.models import Event
from ledger.principals import user
from ledger.proof.audit import verification
from tests.forgery import forge

pytestmark = pytest.mark.django_db(transaction=True)
OLGA = user(9, "Olga Novak")


def grant(role: str) -> Event:
    return account_changes.record_change(
        "user:7",
        "role_granted",
        tenant="acme",
        by=OLGA,
        via="admin",
        name="Alice Moreau",
        details={"role": role},
    )


def test_a_change_says_who_did_what_to_whom_through_what():
    event = grant("approver")

    event.refresh_from_db()
    assert (event.kind, event.principal, event.principal_name, event.via, event.tenant) == (
        "role_granted",
        "user:9",
        "Olga Novak",
        "admin",
        "acme",
    )
    assert json.loads(event.details) == {
        "subject": "user:7",
        "name": "Alice Moreau",
        "role": "approver",
    }
    assert event.subject == account_changes.chain_of("user:7")


def test_changes_of_one_account_at_the_same_instant_make_one_chain():
    def one(number: int) -> None:
        try:
            grant(f"role {number}")
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(one, range(16)))

    assert sorted(Event.objects.values_list("seq", flat=True)) == list(range(1, 17))
    verification.verify()


def test_a_change_that_was_changed_is_noticed():
    grant("approver")
    grant("operator")
    forge("UPDATE ledger_event SET details = replace(details, 'approver', 'viewer')")

    with pytest.raises(verification.Broken):
        verification.verify()


def test_edits_say_from_what_to_what():
    assert account_changes.edits_between({"a": 1, "b": [2]}, {"a": 1, "b": (3,)}) == {
        "b": [[2], [3]]
    }
