"""Passkeys without a browser: an authenticator in a few lines, and where its answers count."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from django.contrib.auth.models import User
from django.test import Client
from fido2.cose import ES256
from fido2.utils import sha256, websafe_decode, websafe_encode
from fido2.webauthn import (
    Aaguid,
    AttestationObject,
    AttestedCredentialData,
    AuthenticatorData,
    CollectedClientData,
)

from approvals.models import Passkey
from approvals.people.sign_in import passkeys

pytestmark = pytest.mark.django_db
ORIGIN = "http://localhost:8000"
PRESENT = AuthenticatorData.FLAG.UP | AuthenticatorData.FLAG.UV
KEY = ec.generate_private_key(ec.SECP256R1())
ID = b"passkey of alice"


def client_data(kind: str, options: dict[str, Any], origin: str) -> CollectedClientData:
    challenge = websafe_decode(options["publicKey"]["challenge"])
    return CollectedClientData.create(kind, challenge, origin)


def answered(**response: bytes) -> dict[str, Any]:
    name = websafe_encode(ID)
    encoded = {part: websafe_encode(content) for part, content in response.items()}
    return {"id": name, "rawId": name, "type": "public-key", "response": encoded}


def made(options: dict[str, Any], origin: str = ORIGIN) -> dict[str, Any]:
    key = AttestedCredentialData.create(
        Aaguid.NONE, ID, ES256.from_cryptography_key(KEY.public_key())
    )
    data = AuthenticatorData.create(
        sha256(b"localhost"), PRESENT | AuthenticatorData.FLAG.AT, 0, bytes(key)
    )
    return answered(
        clientDataJSON=client_data("webauthn.create", options, origin),
        attestationObject=AttestationObject.create("none", data, {}),
    )


def used(options: dict[str, Any], person: User, origin: str = ORIGIN) -> dict[str, Any]:
    data = AuthenticatorData.create(sha256(b"localhost"), PRESENT, 1)
    client = client_data("webauthn.get", options, origin)
    return answered(
        clientDataJSON=client,
        authenticatorData=data,
        signature=KEY.sign(data + client.hash, ec.ECDSA(SHA256())),
        userHandle=passkeys.handle_of(person),
    )


def sign_in(person: User, answer: Callable[..., dict[str, Any]], **changed: str) -> Client:
    client = Client()
    options = client.post("/sign-in/passkey/options").json()
    credential = json.dumps(answer(options, person, **changed))
    client.post("/sign-in/passkey", {"credential": credential})
    return client


def is_in(client: Client) -> bool:
    return client.get("/account/").status_code == 200


def add(person: User, origin: str = ORIGIN, name: str = "Key") -> Any:
    client = Client()
    client.post("/sign-in/", {"username": person.username, "password": person.username})
    options = client.post("/account/passkeys/options").json()
    credential = json.dumps(made(options, origin))
    return client.post("/account/passkeys/add", {"credential": credential, "name": name})


def test_a_passkey_that_was_added_signs_in_and_says_when(alice_user):
    assert add(alice_user).status_code == 200

    assert is_in(sign_in(alice_user, used))
    assert Passkey.objects.get().last_used_at is not None


def test_a_passkey_has_a_name_that_can_be_stored(alice_user):
    assert add(alice_user, name=" " + "K" * 70).status_code == 200

    assert Passkey.objects.get().name == "K" * 60


ELSEWHERE = ["http://localhost:8443", "https://localhost:8000", "http://evil.localhost:8000"]


@pytest.mark.parametrize("origin", ELSEWHERE)
def test_a_passkey_used_at_another_origin_opens_nothing(origin, alice_user):
    add(alice_user)

    assert not is_in(sign_in(alice_user, used, origin=origin))


@pytest.mark.parametrize("origin", ELSEWHERE)
def test_no_passkey_is_added_from_another_origin(origin, alice_user):
    assert add(alice_user, origin).status_code == 409
    assert not Passkey.objects.exists()


def test_a_passkey_opens_nobody_elses_account(alice_user, bob_user):
    add(alice_user)

    assert not is_in(sign_in(bob_user, used))
