"""Every operation, by everybody: what each caller gets is what ``table.csv`` says.

``RECORD_AUTHORIZATION=1 pytest tests/authorization`` writes the table as it is now. Read
the difference line by line before you commit it: it is what you let people and agents do.
"""

from __future__ import annotations

from copy import copy
from typing import Any

import pytest
from django.db.transaction import atomic, set_rollback
from django.test import Client

from ledger.foundation import doorbell
from ledger.limits import rates
from ledger.models import Scope
from tests.authorization import table
from tests.authorization.operations import address_of, all_operations, request_of
from tests.authorization.scene import AGENTS, COLUMNS, PEOPLE, RECORDS, STAFF, Scene

SIGN_IN = ("/sign-in/", "/admin/login/")


@pytest.fixture
def scene(db: None, settings: Any) -> Scene:
    # Of the company's directory, which is none of these callers.
    settings.SCIM_TOKEN, settings.SCIM_TENANT = "of-the-directory", "acme"
    return Scene()


def status_of(client: Client, operation: str, scene: Scene) -> str:
    """The answer in a word; whatever it wrote is taken back."""
    method = operation.partition(" ")[0].lower()
    doorbell.redis().flushdb()  # nobody polls too fast here
    rates.forget()  # nor signs in too often
    cookies = copy(client.cookies)
    with atomic():
        address, said = address_of(operation, scene), request_of(operation, scene)
        answer: Any = getattr(client, method)(address, **said)
        if hasattr(answer, "streaming_content"):
            b"".join(answer.streaming_content)
        set_rollback(True)
    client.cookies = cookies
    if answer.status_code == 302 and answer["Location"].startswith(SIGN_IN):
        return "sign-in"
    return str(answer.status_code)


def row_of(operation: str, scene: Scene) -> dict[str, str]:
    cells = {"anonymous": status_of(Client(raise_request_exception=False), operation, scene)}
    address = operation.partition(" ")[2]
    if address.startswith(("/api/", "/humanlayer/", "/scim/")):
        for name in AGENTS:
            statuses = {
                scope: status_of(scene.agent(name, scope), operation, scene)
                for scope in [table.NO_SCOPE, *Scope.values]
            }
            cells[name] = table.cell_of(statuses)
    if not address.startswith(("/api/", "/humanlayer/")):
        for name in STAFF if " /admin/" in operation else PEOPLE:
            cells[name] = status_of(scene.person(name), operation, scene)
    return cells


PARTS = {
    "REST": lambda operation: " /api/" in operation,
    "HumanLayer's clients": lambda operation: " /humanlayer/" in operation,
    "the directory": lambda operation: " /scim/" in operation,
    "the ledger admin": lambda operation: (
        " /admin/" in operation and " /admin/rq/" not in operation
    ),
    "the queue pages": lambda operation: " /admin/rq/" in operation,
    "the desk": lambda operation: (
        " /api/" not in operation
        and " /humanlayer/" not in operation
        and " /scim/" not in operation
        and " /admin/" not in operation
        and not operation.startswith(("A2A ", "MCP "))
    ),
}


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("part", PARTS)
def test_everybody_gets_what_the_table_says(part: str, scene: Scene) -> None:
    operations = [name for name in all_operations() if PARTS[part](name)]
    seen = {operation: row_of(operation, scene) for operation in operations}
    if RECORDS:
        rows = {name: row for name, row in table.read().items() if not PARTS[part](name)}
        table.write(rows | seen, COLUMNS)
        return
    rows = {name: row for name, row in table.read().items() if PARTS[part](name)}

    assert sorted(seen) == sorted(rows), "a new operation needs its row, an old one none"
    wrong = [
        f"{operation} as {caller}: {seen[operation].get(caller, '')!r}, not {cell!r}"
        for operation, row in rows.items()
        for caller, cell in row.items()
        if seen[operation].get(caller, "") != cell
    ]
    assert not wrong, "\n".join(wrong)


def test_nothing_is_answered_with_an_error_of_ours() -> None:
    assert not [operation for operation, row in table.read().items() if "500" in str(row)]


def test_whoever_is_not_known_gets_nothing_but_what_is_public() -> None:
    open_to_all = {
        operation for operation, row in table.read().items() if row["anonymous"].startswith("2")
    }

    assert open_to_all == PUBLIC


# Cards, keys, schemas, the log's hashes, the document of REST, and the way in.
PUBLIC = {
    "POST /oauth/revoke",  # of whatever token: that says nothing
    "GET /.well-known/agent-card.json",
    "GET /.well-known/agent.json",
    "GET /.well-known/jwks.json",
    "GET /.well-known/oauth-authorization-server",
    "GET /.well-known/oauth-protected-resource",
    "GET /.well-known/oauth-protected-resource/mcp",
    "GET /a2a/.well-known/agent-card.json",
    "GET /a2a/schemas/{name}",
    "GET /a2a/skills/{skill}/.well-known/agent-card.json",
    "GET /a2a/skills/{skill}/v0.3",
    "GET /a2a/skills/{skill}/v0.3/",
    "GET /a2a/skills/{skill}/v0.3/.well-known/agent-card.json",
    "GET /a2a/skills/{skill}/v0.3/.well-known/agent.json",
    "GET /a2a/v0.3",
    "GET /a2a/v0.3/",
    "GET /a2a/v0.3/.well-known/agent-card.json",
    "GET /a2a/v0.3/.well-known/agent.json",
    "GET /a2a/v0.3/agent-card.json",
    "GET /api/v1/.well-known/agent-card.json",
    "GET /api/v1/docs",
    "POST /api/v1/docs",
    "GET /api/v1/log/consistency",
    "GET /api/v1/log/inclusion",
    "GET /api/v1/openapi.json",
    # Whoever has the permit itself: its text is the proof.
    "POST /api/v1/permits/introspect",
    "POST /api/v1/permits/{jti}/redeem",
    "POST /api/v1/openapi.json",
    "GET /log/checkpoint",
    "GET /log/key",
    "GET /log/tile/{place}",
    "GET /manifest.webmanifest",
    "GET /offline/",
    "GET /service-worker.js",
    "GET /sign-in/",
    "GET /sign-in/forgotten/",
    "POST /sign-in/",
    "POST /sign-in/forgotten/",
    "POST /sign-in/passkey/options",
}
