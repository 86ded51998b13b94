"""People who have keys that sign, enrolled by two operators, and a tenant that does not wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from approvals.people import accounts, principal_of
from approvals.people.sign_in import passkeys_of
from approvals.presentation import full_display
from ledger.events import four_eyes
from ledger.models import ChangeRequest, Tenant, Transaction
from tests.authenticators import Authenticator
from tests.requests.conftest import edited
from tests.rules.conftest import activated, olga, otto

__all__ = ["activated", "edited", "olga", "otto"]
SIGNED = {"when": {"tool": "refund"}, "then": {"verdict": "ask", "strength": "passkey"}}


@pytest.fixture(autouse=True)
def without_waiting(acme: Tenant) -> None:
    Tenant.objects.filter(pk=acme.pk).update(signing_key_hours=0)


def let_sign(person: User, key: Any, asking: Any, confirming: Any) -> None:
    """Two operators say that this passkey of the person, the newest, may sign."""
    by, via = principal_of(asking), "web"
    passkey = passkeys_of(person).latest("pk")
    accounts.let_sign(person, passkey.pk, "acme", by=by, via=via)
    request = ChangeRequest.objects.latest("pk")
    four_eyes.confirm(request, seen=request.sha256, by=principal_of(confirming), via=via)


@pytest.fixture
def has_key(olga_user: User, otto_user: User) -> Callable[[User], Authenticator]:
    def make(person: User) -> Authenticator:
        key = Authenticator(f"key of {person.username}".encode())
        key.add_to(person)
        asking, confirming = (
            (olga_user, otto_user) if person != otto_user else (otto_user, olga_user)
        )
        let_sign(person, key, asking, confirming)
        return key

    return make


@pytest.fixture
def refund(a_transaction: Any) -> Callable[..., Transaction]:
    return lambda **arguments: a_transaction(
        "refund", **{"order": "o1", "amount": "20"} | arguments
    )


def asked_to_sign(client: Client, row: Transaction) -> Any:
    """The options with which the page has the browser sign."""
    user = User.objects.get(pk=client.session["_auth_user_id"])
    said = {"digest": row.intent_digest, "shown": full_display.proof_of(row, user)}
    return client.post(f"/transactions/{row.pk}/sign", said)


def approve(client: Client, row: Transaction, **said: Any) -> Any:
    """As the page sends it."""
    user = User.objects.get(pk=client.session["_auth_user_id"])
    said = {"digest": row.intent_digest, "shown": full_display.proof_of(row, user), **said}
    return client.post(f"/transactions/{row.pk}/approve", said, headers={"HX-Request": "true"})


def sign(client: Client, row: Transaction, key: Authenticator, **changed: Any) -> Any:
    """Ask for the options, have the key sign them, and approve."""
    options = asked_to_sign(client, row).json()
    return approve(client, row, credential=key.use(options, **changed), nonce=options["nonce"])
