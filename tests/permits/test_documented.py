"""What docs/permits.md shows to owners does what it says; so does ``manage.py verify_permit``."""

from __future__ import annotations

import json
import re
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from a2a.cards import signatures

pytestmark = pytest.mark.django_db(transaction=True)

PAGE = Path(__file__).parents[2] / "docs" / "permits.md"


@pytest.fixture
def permit(hand, signed_off):
    return hand.fetch(signed_off()).json()["permit"]


@pytest.fixture
def jwks(tmp_path):
    file = tmp_path / "jwks.json"
    file.write_text(json.dumps(signatures.public_jwks()))
    return file


def documented():
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    names: dict = {}
    exec(code, names)
    return code, names["check"]


def test_the_owners_check_fits_on_a_card_and_accepts_what_was_signed(permit):
    code, check = documented()

    jwks = signatures.public_jwks()
    claims = check(permit, {"account": "7"}, "acme", "delete_account", "accounts.example", jwks)

    assert claims["operation_key"] == "delete_account:acme:7"
    assert len([line for line in code.splitlines() if line.strip()]) <= 20


@pytest.mark.parametrize(
    "changes",
    [
        {"arguments": {"account": "8"}},
        {"tenant": "globex"},
        {"tool": "delete_everything"},
        {"audience": "other.example"},
        {"jwks": {"keys": []}},
        {"permit": "a.b.c"},
    ],
)
def test_the_owners_check_refuses_anything_else(permit, changes):
    _, check = documented()
    asked = {
        "permit": permit,
        "arguments": {"account": "7"},
        "tenant": "acme",
        "tool": "delete_account",
        "audience": "accounts.example",
        "jwks": signatures.public_jwks(),
    }

    with pytest.raises(Exception, match=r"\w"):
        check(**(asked | changes))


def verify(file, jwks, audience="accounts.example", **options):
    said = StringIO()
    options |= {"jwks": str(jwks), "audience": audience}
    call_command("verify_permit", str(file), stdout=said, **options)
    return said.getvalue()


def test_the_command_prints_the_claims(permit, jwks, tmp_path):
    file = tmp_path / "permit"
    file.write_text(f"{permit}\n")

    assert json.loads(verify(file, jwks))["aud"] == "accounts.example"


def test_the_command_says_why_a_permit_does_not_count(permit, jwks, tmp_path):
    file = tmp_path / "permit"
    file.write_text(permit)
    with pytest.raises(CommandError, match="Audience doesn't match"):
        verify(file, jwks, audience="other.example")

    with pytest.raises(CommandError, match="another tenant"):
        verify(file, jwks, tenant="globex")

    jwks.write_text('{"keys": []}')
    with pytest.raises(CommandError, match="None of the keys has the id"):
        verify(file, jwks)

    jwks.write_text("[]")
    with pytest.raises(CommandError, match="no JSON Web Key Set"):
        verify(file, jwks)

    file.write_text("nonsense")
    jwks.write_text('{"keys": []}')
    with pytest.raises(CommandError, match="no JSON Web Token"):
        verify(file, jwks)


def test_the_command_reads_the_keys_from_an_address(permit, live_server, tmp_path):
    file = tmp_path / "permit"
    file.write_text(permit)

    assert verify(file, f"{live_server.url}/.well-known/jwks.json")
    with pytest.raises(CommandError, match="cannot be read"):
        verify(file, "http://127.0.0.1:1/jwks.json")
