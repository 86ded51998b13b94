"""Each key does one thing, is known to who needs it, and can be replaced."""

from __future__ import annotations

import json
import os
import sys
from io import StringIO

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.core.management import call_command

from a2a.cards import cards, signatures
from approvals import processes
from approvals.local import embedded_services
from ledger.foundation.crypto.signing_keys import public_vapid_key

OLD, NEW = "77" * 32, "88" * 32


@pytest.fixture
def at_home(tmp_path, monkeypatch):
    """A machine on which nobody chose any key."""
    monkeypatch.setattr(embedded_services, "HOME", tmp_path)
    before = dict(os.environ)
    _forget_settings()
    embedded_services.make_keys(tmp_path)
    _forget_settings()
    yield tmp_path
    os.environ.clear()
    os.environ.update(before)


def _forget_settings() -> None:
    for name in [name for name in os.environ if name.startswith(("ASSENT_", "DATABASE_URL"))]:
        del os.environ[name]


@pytest.mark.parametrize(
    ("command", "has_it"), [("sweep", True), ("work", False), ("up", False), ("migrate", False)]
)
def test_only_the_sweeper_is_given_the_audit_key(at_home, monkeypatch, command, has_it):
    monkeypatch.setattr(sys, "argv", ["manage.py", command])

    embedded_services._set_keys()

    given = {name for name in os.environ if name.startswith("ASSENT_")}
    assert ("ASSENT_AUDIT_KEY" in given) is has_it
    public = {"ASSENT_AUDIT_PUBLIC_KEYS", "ASSENT_VAPID_PUBLIC_KEY"}
    process = processes.run_by([command])
    kept = process.secrets if process else processes.OF_COMMANDS
    assert given == (kept & set(embedded_services.KEYS.values())) | public
    secret = Ed25519PrivateKey.from_private_bytes(
        bytes.fromhex((at_home / "audit_key").read_text())
    )
    public = secret.public_key().public_bytes_raw().hex()
    assert os.environ["ASSENT_AUDIT_PUBLIC_KEYS"] == public


@pytest.mark.parametrize(
    ("command", "has_it"), [("migrate", True), ("work", False), ("sweep", False), ("up", False)]
)
def test_only_migrate_is_given_the_address_of_the_owner(at_home, monkeypatch, command, has_it):
    monkeypatch.setattr(sys, "argv", ["manage.py", command])
    services = {"DATABASE_URL": "postgresql:///app", "ASSENT_OWNER_DATABASE_URL": "postgresql:///o"}
    (at_home / "services.json").write_text(json.dumps(services | {"pid": os.getpid()}))

    embedded_services.use_running_services()

    assert os.environ["DATABASE_URL"] == "postgresql:///app"
    assert ("ASSENT_OWNER_DATABASE_URL" in os.environ) is has_it


def test_keys_are_made_once_and_only_we_can_read_them(at_home):
    before = {path.name: path.read_text() for path in at_home.iterdir()}

    embedded_services.make_keys(at_home)

    assert {path.name: path.read_text() for path in at_home.iterdir()} == before
    assert {path.stat().st_mode & 0o777 for path in at_home.iterdir()} == {0o600}
    assert len(set(before.values())) == len(before)


@pytest.mark.parametrize(
    ("arguments", "has_it"),
    [
        (["work", "--only", "deliver"], True),
        (["work"], True),  # it is worker and courier
        (["work", "--but", "deliver"], False),
        (["sweep"], False),
        (["runserver"], False),
    ],
)
def test_only_who_delivers_is_given_the_key_of_web_push(arguments, has_it):
    withheld = processes.withheld_from(processes.run_by(arguments))

    assert ("ASSENT_VAPID_KEY" not in withheld) is has_it


@pytest.mark.parametrize("process", processes.PROCESSES, ids=lambda process: process.name)
def test_up_gives_the_audit_key_to_the_sweeper_alone_and_the_owners_database_to_migrate(process):
    secrets = {"ASSENT_AUDIT_KEY": OLD, "ASSENT_OWNER_DATABASE_URL_FILE": "/run/owner"}

    given = processes.environment_of(process, secrets | {"ASSENT_LOG_LEVEL": "INFO"})

    assert ("ASSENT_AUDIT_KEY" in given) is (process.name == "sweeper")
    assert ("ASSENT_OWNER_DATABASE_URL_FILE" in given) is (process.name == "migrate")
    assert given["ASSENT_LOG_LEVEL"] == "INFO"


def test_a_process_without_tokens_is_told_that_slack_and_mail_are_set_up():
    secrets = {"ASSENT_SLACK_BOT_TOKEN_FILE": "/run/slack", "ASSENT_EMAIL_URL": "smtp://mail"}

    worker = processes.environment_of(processes.WORKER, secrets)
    courier = processes.environment_of(processes.COURIER, secrets)

    assert worker == {"ASSENT_HAS_SLACK": "1", "ASSENT_HAS_MAIL": "1"}
    assert courier == secrets
    assert processes.environment_of(processes.WORKER, {}) == {}


def test_make_keys_prints_a_set_whose_public_half_fits():
    call_command("make_keys", stdout=(said := StringIO()))

    made = dict(line.split("=") for line in said.getvalue().split())
    secret = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(made["ASSENT_AUDIT_KEY"]))
    assert made["ASSENT_AUDIT_PUBLIC_KEYS"] == secret.public_key().public_bytes_raw().hex()
    assert len(set(made.values())) == 11
    assert made["ASSENT_VAPID_PUBLIC_KEY"] == public_vapid_key(made["ASSENT_VAPID_KEY"])


def ids_published() -> list[str]:
    return [key["kid"] for key in signatures.public_jwks()["keys"]]


def id_of(text: str) -> str:
    return signatures.key_id(Ed25519PrivateKey.from_private_bytes(bytes.fromhex(text)))


def test_a_key_that_was_replaced_is_still_published_and_signs_no_more(settings, db):
    settings.CARD_KEYS = [OLD]
    signed_before = jwt.get_unverified_header(_jws(cards.as_json(cards.public_card())))
    settings.CARD_KEYS = [NEW, OLD]

    signed_after = jwt.get_unverified_header(_jws(cards.as_json(cards.public_card())))

    assert (signed_before["kid"], signed_after["kid"]) == (id_of(OLD), id_of(NEW))
    assert {id_of(OLD), id_of(NEW)} <= set(ids_published())


def _jws(card: dict) -> str:
    (signature,) = card["signatures"]
    return f"{signature['protected']}.e30.{signature['signature']}"


def test_push_notifications_and_the_card_are_signed_by_different_keys_and_neither_by_the_audits(
    settings,
):
    header = jwt.get_unverified_header(signatures.signed_claims({"task_id": "x"}))

    assert header["kid"] == id_of(settings.PUSH_KEYS[0])
    assert id_of(settings.AUDIT_KEY) not in ids_published()
    keys = (settings.PUSH_KEYS, settings.CARD_KEYS, settings.TOOL_KEYS)
    permits = f"permit-{id_of(settings.PERMIT_KEYS[0])}"
    assert set(ids_published()) == {id_of(one[0]) for one in keys} | {permits}
