"""A directory that speaks SCIM to the desk: by a published client, and as Entra and Okta do."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client
from scim2_client.engines.wsgi import WSGISCIMClient

from approvals.wsgi import application
from ledger.models import Group

TOKEN = "the-token-of-the-directory-of-acme"
USER = "urn:ietf:params:scim:schemas:core:2.0:User"
PATCH = "urn:ietf:params:scim:api:messages:2.0:PatchOp"


@pytest.fixture(autouse=True)
def set_up(settings, acme):
    """Who is in Deciders approves for Acme, who is in Money is in its group finance."""
    settings.SCIM_TOKEN, settings.SCIM_TENANT = TOKEN, "acme"
    settings.OIDC_ROLES = ["scim=Deciders:approver@acme", "groups=x:approver@globex"]
    settings.OIDC_GROUPS = ["scim=Money:finance@acme"]
    Group.objects.create(tenant="acme", name="finance")


class Directory:
    """One that sends JSON, and remembers nothing."""

    def __init__(self, token: str = TOKEN) -> None:
        self._client = Client(headers={"Authorization": f"Bearer {token}"})

    def ask(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        self.answer = self._client.generic(
            method,
            f"/scim/v2/{path}",
            json.dumps(body) if body is not None else "",
            content_type="application/scim+json",
            query_params=query,
        )
        assert self.answer.headers["Content-Type"].startswith("application/scim+json") or (
            self.answer.status_code == 204
        )
        return json.loads(self.answer.content or "null")

    def make(self, user_name: str = "ada", /, **more: Any) -> str:
        body = {"schemas": [USER], "userName": user_name, "active": True, **more}
        made = self.ask("POST", "Users", body)
        assert self.answer.status_code == 201, made
        return str(made["id"])

    def patch(self, path: str, *operations: dict[str, Any]) -> int:
        self.told = self.ask("PATCH", path, {"schemas": [PATCH], "Operations": [*operations]})
        return int(self.answer.status_code)

    def group(self, name: str) -> str:
        (found,) = self.ask("GET", "Groups", filter=f'displayName eq "{name}"')["Resources"]
        return f"Groups/{found['id']}"

    def add(self, group: str, *people: str) -> int:
        value = [{"value": each} for each in people]
        return self.patch(self.group(group), {"op": "add", "path": "members", "value": value})


@pytest.fixture
def directory(db) -> Directory:
    return Directory()


@pytest.fixture
def published(transactional_db) -> WSGISCIMClient:
    """The client that scim2-client publishes, with what the desk says of itself."""
    headers = {"Authorization": f"Bearer {TOKEN}"}
    client = WSGISCIMClient(application, "http://localhost/scim/v2", headers)
    client.discover()
    return client
