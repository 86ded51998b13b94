"""A tool that its agent carries out itself, registered for acme, and the agent's way through it."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import pytest
from django.test import Client

from approvals.people import principal_of
from ledger.models import Agent, AgentToken, Tenant, Transaction
from ledger.principals import Surface, system
from ledger.tools import manifests, registrations
from ledger.tools.manifests import Manifest
from ledger.transactions import coordinator

OPERATOR = system("command", "olga on the server")
API = "/api/v1"


def manifest(**changes: Any) -> dict[str, Any]:
    terms = changes.pop("contract", {})
    return {
        "name": "delete_account",
        "kind": "agent",
        "audience": "accounts.example",
        "acts_within_s": 60,
        "limits": {"accounts": 1},
        "description": "Deletes an account.",
        "arguments": {
            "type": "object",
            "additionalProperties": False,
            "required": ["account"],
            "properties": {"account": {"type": "string", "maxLength": 40}},
        },
        "contract": {
            "owner_service": "accounts",
            "operation_key": "delete_account:{tenant}:{account}",
            **terms,
        },
        **changes,
    }


def register(tenant: Tenant, **changes: Any) -> Manifest:
    version = manifests.read(manifest(**changes))
    registrations.register(tenant, version, by=OPERATOR, via=Surface.COMMAND)
    return version


class Hand:
    """One agent and its token, over REST."""

    def __init__(self, owner: Agent, *scopes: str) -> None:
        _, self.token = AgentToken.issue(owner, scopes=list(scopes) or ["propose"])
        self.client = Client(headers={"Authorization": f"Bearer {self.token}"})

    def post(self, path: str, body: Any = None, **headers: str) -> Any:
        return post(self.client, path, body, **headers)

    def get(self, path: str) -> Any:
        return self.client.get(f"{API}{path}")

    def propose(self, account: str = "7") -> Any:
        arguments = {"account": account}
        return self.post(
            "/transactions",
            {"tool": "delete_account", "arguments": arguments, "reason": "It was asked for."},
            idempotency_key=f"delete {account}",
        )

    def fetch(self, row: Transaction) -> Any:
        return self.post(f"/transactions/{row.pk}/permit")

    def redeem(self, jti: str, **headers: str) -> Any:
        return self.post(f"/permits/{jti}/redeem", **headers)

    def receipt(self, row: Transaction, name: str = "del_7", **more: Any) -> Any:
        return self.post(f"/transactions/{row.pk}/receipt", {"receipt": {"id": name, **more}})

    def nothing(self, row: Transaction, detail: str = "The account is gone already.") -> Any:
        body = {"problem": "nothing-happened", "detail": detail}
        return self.post(f"/transactions/{row.pk}/receipt", body)


def post(client: Client, path: str, body: Any = None, **headers: str) -> Any:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    content = {} if body is None else {"data": json.dumps(body)}
    return client.post(f"{API}{path}", content_type="application/json", headers=names, **content)


def redeem_bare(permit: str, jti: str, **headers: str) -> Any:
    """As the service does that was shown the permit, and that has no token."""
    return post(Client(), f"/permits/{jti}/redeem", {"permit": permit}, **headers)


def introspect(token: str) -> dict[str, Any]:
    answer = Client().post(f"{API}/permits/introspect", {"token": token})
    assert answer.status_code == 200
    body: dict[str, Any] = answer.json()
    return body


@pytest.fixture
def tool(acme: Tenant) -> Manifest:
    return register(acme)


@pytest.fixture
def hand(tool: Manifest, helpdesk: Agent) -> Hand:
    return Hand(helpdesk)


@pytest.fixture
def signed_off(hand: Hand, alice: Any) -> Any:
    """Proposes one and has it signed off."""

    def make(account: str = "7") -> Transaction:
        answer = hand.propose(account)
        assert answer.status_code == 201, answer.content
        body = answer.json()
        row = coordinator.approve(
            UUID(body["transaction_id"]), digest=body["intent_digest"], by=alice, via=Surface.WEB
        )
        return row

    return make


@pytest.fixture
def olga(olga_user: Any) -> Any:
    return principal_of(olga_user)


@pytest.fixture
def otto(otto_user: Any) -> Any:
    return principal_of(otto_user)
