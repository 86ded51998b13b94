"""Each check of what a passkey signed, as both verifiers make it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from fido2 import cbor
from fido2.cose import ES256
from fido2.utils import sha256, websafe_decode, websafe_encode

from examples import verify as second
from ledger.sign_off.passkeys import SigningKey, assertion_faults, challenge_of

PRIVATE = ec.derive_private_key(7, ec.SECP256R1())
PUBLIC = dict(ES256.from_cryptography_key(PRIVATE.public_key()))
STATEMENT = {"verdict": "approve", "nonce": "n"}
Parts = dict[str, Any]


def signing_key(public_key: bytes = cbor.encode(PUBLIC)) -> SigningKey:
    return SigningKey(
        websafe_encode(b"key"), websafe_encode(public_key), "localhost", "http://localhost:8000"
    )


def made(**changed: Any) -> dict[str, Any]:
    """The assertion over what an authenticator and a browser would say, but for what is changed."""
    client = {
        "type": "webauthn.get",
        "challenge": websafe_encode(challenge_of(STATEMENT)),
        "origin": "http://localhost:8000",
        "crossOrigin": False,
    } | changed.pop("client", {})
    client = {name: value for name, value in client.items() if value is not None}
    of_browser = json.dumps(client).encode()
    host, flags = changed.pop("host", b"localhost"), changed.pop("flags", 5)
    data = sha256(host) + bytes([flags, 0, 0, 0, 1]) + changed.pop("more", b"")
    data = data[: changed.pop("bytes", None)]
    private = changed.pop("private", PRIVATE)
    signature = private.sign(data + sha256(of_browser), ec.ECDSA(SHA256()))
    told = {
        "credential": websafe_encode(b"key"),
        "authenticator_data": websafe_encode(data),
        "client_data": websafe_encode(of_browser),
        "signature": websafe_encode(signature),
        "nonce": "n",
    } | changed
    return {name: value for name, value in told.items() if value is not None}


def faults_of_both(assertion: Any, key: SigningKey) -> tuple[list[str], list[str]]:
    ours = [*assertion_faults(assertion, STATEMENT, key)]
    theirs = second.assertion_faults(assertion, STATEMENT, key.as_json())
    return ours, [*second.read_of(theirs)]


def test_what_a_passkey_signed_has_no_fault() -> None:
    for assertion in (made(), made(client={"crossOrigin": None}), made(client={"more": "so"})):
        assert faults_of_both(assertion, signing_key()) == ([], [])


CHANGES: dict[str, tuple[Parts, str, str]] = {
    "of another site's frame": (
        {"client": {"crossOrigin": True}},
        "something else than signing",
        "not for signing",
    ),
    "for a new passkey": (
        {"client": {"type": "webauthn.create"}},
        "something else than signing",
        "not for signing",
    ),
    "at another address": (
        {"client": {"origin": "http://localhost:8001"}},
        "another address",
        "another address",
    ),
    "for another host": ({"host": b"evil.example"}, "another installation", "another address"),
    "of something else": (
        {"client": {"challenge": websafe_encode(sha256(b""))}},
        "of something else",
        "of something else",
    ),
    "nobody there": ({"flags": 4}, "verified its person", "verified its person"),
    "nobody verified": ({"flags": 1}, "verified its person", "verified its person"),
    "by another key": (
        {"private": ec.derive_private_key(8, ec.SECP256R1())},
        "not of this key",
        "not of this key",
    ),
    "in the name of another key": (
        {"credential": websafe_encode(b"other")},
        "names another key",
        "names another key",
    ),
    "with more than it says": ({"more": b"\xa0"}, "cannot be read", "cannot be read"),
    "with less than it says": ({"flags": 0x85}, "cannot be read", "cannot be read"),
    "cut off": ({"bytes": 36}, "cannot be read", "cannot be read"),
    "without a member": ({"signature": None}, "cannot be read", "cannot be read"),
    "with one more": ({"other": "AA"}, "cannot be read", "cannot be read"),
    "no text": ({"nonce": 7}, "cannot be read", "cannot be read"),
    "too long": ({"nonce": "n" * 4_001}, "cannot be read", "cannot be read"),
    "written otherwise": (
        {"credential": websafe_encode(b"key") + "=="},
        "cannot be read",
        "cannot be read",
    ),
    "with what is not read": (
        {"client_data": "!" + made()["client_data"]},
        "cannot be read",
        "cannot be read",
    ),
    "of no challenge": ({"client": {"challenge": None}}, "cannot be read", "cannot be read"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_wrong_is_a_fault_of_its_own(change: str) -> None:
    changed, ours, theirs = CHANGES[change]

    found = faults_of_both(made(**changed), signing_key())

    assert [len(faults) for faults in found] == [1, 1], found
    assert (ours in found[0][0], theirs in found[1][0]) == (True, True), found


RAW = cbor.encode(PUBLIC)
KEYS: dict[str, Callable[[], bytes]] = {
    "more bytes": lambda: RAW + b"\0",
    "one member more": lambda: cbor.encode({**PUBLIC, 2: b"id"}),
    "one member less": lambda: cbor.encode({n: v for n, v in PUBLIC.items() if n != -3}),
    "on no curve": lambda: cbor.encode({**PUBLIC, -3: PUBLIC[-2]}),
    "of another algorithm": lambda: cbor.encode({**PUBLIC, 3: -35}),
    "no key": lambda: b"\xa0",
}


@pytest.mark.parametrize("shape", KEYS)
def test_a_public_key_that_is_not_written_so_signs_nothing(shape: str) -> None:
    found = faults_of_both(made(), signing_key(KEYS[shape]()))

    assert [faults != [] for faults in found] == [True, True], found


def test_a_key_is_written_in_one_way_only() -> None:
    key = replace(signing_key(), public_key=signing_key().public_key + "=")
    assert [faults != [] for faults in faults_of_both(made(), key)] == [True, True]

    backwards = b"\xa5" + b"".join(
        cbor.encode(name) + cbor.encode(PUBLIC[name]) for name in reversed([*PUBLIC])
    )
    assert cbor.decode(backwards) == PUBLIC

    assert [*assertion_faults(made(), STATEMENT, signing_key(backwards))]


def test_the_counter_is_after_the_flags() -> None:
    assert websafe_decode(made()["authenticator_data"])[33:] == b"\0\0\0\1"
