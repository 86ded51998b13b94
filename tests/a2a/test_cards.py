"""Our agent cards: public and extended, versioned, cached and signed."""

from __future__ import annotations

import os
from datetime import UTC, datetime

import jsonschema_rs
import jwt
import pytest
from a2a.client.card_resolver import parse_agent_card
from a2a.utils.signing import create_signature_verifier

from a2a.cards import cards
from a2a.models import Skill
from a2a.validation import SKILLS_EXTENSION
from a2a.wire import sdk
from ledger.models import Scope
from tests.a2a.test_protocol import Peer

pytestmark = pytest.mark.django_db(transaction=True)
PATH = "/.well-known/agent-card.json"


@pytest.fixture(autouse=True)
def _key(settings):
    settings.AUDIT_KEY = "11" * 32


def test_the_public_card_says_what_assent_offers_and_nothing_of_tenants(client, consolidate):
    card = client.get(PATH).json()

    assert {skill["id"] for skill in card["skills"]} == {"prepare_transaction", "ask_a_person"}
    assert [face["protocolBinding"] for face in card["supportedInterfaces"]] == [
        "JSONRPC",
        "HTTP+JSON",
    ]
    assert "consolidate" not in client.get(PATH).content.decode()
    assert card["securitySchemes"]["bearer"]["httpAuthSecurityScheme"]["scheme"] == "Bearer"


@pytest.mark.parametrize("server", ["", "https://assent.example"])
def test_the_card_says_where_programs_get_a_token_if_there_is_such_a_place(
    client, settings, server
):
    settings.AUTHORIZATION_SERVER = server

    schemes = client.get(PATH).json()["securitySchemes"]

    flows = schemes.pop("oauth2", {"oauth2SecurityScheme": {"flows": {}}})["oauth2SecurityScheme"]
    asked_at = [flow["tokenUrl"] for flow in flows["flows"].values()]
    assert asked_at == ([f"{server}/oauth/token"] if server else [])
    assert schemes.keys() == {"bearer"}


def test_the_extended_card_has_the_tenants_skills_with_their_schemas(
    orchestrator, stranger, consolidate
):
    card = Peer(orchestrator, Scope.SUBMIT).rpc("GetExtendedAgentCard")["result"]
    terms = next(
        extension["params"]["skills"]["consolidate"]
        for extension in card["capabilities"]["extensions"]
        if extension["uri"] == SKILLS_EXTENSION
    )

    assert terms["input_schema"] == consolidate.input_schema
    assert terms["owner"] == "acme/archivist"
    assert jsonschema_rs.is_valid(terms["input_schema"], {"transcripts": ["a"]})
    theirs = Peer(stranger, Scope.SUBMIT).rpc("GetExtendedAgentCard")["result"]
    assert "consolidate" not in {skill["id"] for skill in theirs["skills"]}


def test_the_version_changes_with_what_is_offered(consolidate):
    before = cards.extended_card("acme").version
    assert cards.extended_card("acme").version == before
    Skill.objects.update(description="Another one.")

    assert cards.extended_card("acme").version != before


def test_it_is_fetched_once_and_then_only_asked_about(client):
    first = client.get(PATH)
    assert first["Cache-Control"] == "public, max-age=300"
    assert first["Last-Modified"].endswith("GMT")

    again = client.get(PATH, headers={"If-None-Match": first["ETag"]})

    assert (again.status_code, again.content, again["ETag"]) == (304, b"", first["ETag"])
    assert client.get(PATH, headers={"If-None-Match": '"other"'}).status_code == 200


def test_it_was_last_modified_when_what_it_is_made_of_changed(client, monkeypatch, tmp_path):
    source = tmp_path / "source.py"
    source.write_text("")
    monkeypatch.setattr(cards, "SOURCES", [*cards.SOURCES, source])
    os.utime(source, (4_000_000_000, 4_000_000_000))  # newer than the others

    assert all(file.is_file() for file in cards.SOURCES)
    assert cards.changed_at() == datetime.fromtimestamp(4_000_000_000, tz=UTC)
    assert client.get(PATH)["Last-Modified"] == "Tue, 02 Oct 2096 07:06:40 GMT"


def test_its_version_begins_with_that_of_assent(client, settings):
    assert client.get(PATH).json()["version"].startswith(f"{settings.VERSION}+")


def test_its_signature_verifies_with_the_published_key_and_with_no_other(client):
    card = parse_agent_card(client.get(PATH).json())
    jwks = {
        key["kid"]: jwt.PyJWK(key) for key in client.get("/.well-known/jwks.json").json()["keys"]
    }

    verify = create_signature_verifier(lambda kid, jku: jwks[kid], ["EdDSA"])
    verify(card)
    card.description = "Forged."
    with pytest.raises(Exception, match="No valid signature"):
        verify(card)
    assert "d" not in client.get("/.well-known/jwks.json").json()["keys"][0]


def test_a_tool_is_never_called_by_a_get(client):
    for path in (PATH, "/.well-known/jwks.json", "/a2a/v0.3/agent-card.json"):
        assert client.post(path).status_code in {403, 405}


def test_the_card_of_the_plain_dialect_names_its_scheme_in_lower_case_as_its_clients_compare_it(
    client,
):
    card = client.get("/api/v1/.well-known/agent-card.json").json()

    assert card["authentication"]["schemes"] == ["bearer"]


def test_a_client_of_version_0_3_reads_the_card_at_the_origin(client):
    card = sdk.v03_types.AgentCard.model_validate(client.get(PATH).json())

    old = client.get("/.well-known/agent.json").json()
    expected = sdk.v03_types.AgentCard.model_validate(old)
    # The signature is that of 1.0, whose extensions leave out what is false.
    but = {"signatures", "capabilities"}
    assert card.model_dump(exclude=but) == expected.model_dump(exclude=but)


@pytest.mark.parametrize("path", ["/a2a/v0.3", "/a2a/v0.3/", "/a2a/skills/ask_a_person/v0.3"])
def test_the_address_of_version_0_3_answers_a_get_with_its_card(path, orchestrator):
    peer = Peer(orchestrator, Scope.SUBMIT)

    answer = peer.http("GET", path)

    assert answer.status_code == 200
    assert answer.json()["url"].endswith(path.rstrip("/"))
    assert answer.json()["protocolVersion"] == "0.3"


def test_the_origin_gives_json_to_who_asks_for_it_and_the_desk_to_people(client):
    card = client.get("/", headers={"Accept": "application/json"})
    assert card.json() == client.get(PATH).json()
    assert "Accept" in card["Vary"], "else a cache would give it to people"
    for accept in ("text/html,*/*;q=0.8", "*/*"):
        assert client.get("/", headers={"Accept": accept})["Location"].startswith("/sign-in/")
