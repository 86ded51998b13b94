"""Assertions of keys of every algorithm that signs, as both verifiers read them; no other signs."""

from __future__ import annotations

from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256, SHA384
from fido2 import cbor
from fido2.cose import ES256, ES384, RS256, EdDSA
from fido2.utils import sha256, websafe_encode
from fido2.webauthn import AuthenticatorData, CollectedClientData
from hypothesis import given, strategies as st

from examples import verify as second
from ledger.sign_off.passkeys import SigningKey, assertion_faults, challenge_of
from tests.authenticators import ORIGIN, VERIFIED

STATEMENT = {"transaction": "one", "nonce": "n"}
EC, EC_384 = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP384R1())
ED, RSA = ed25519.Ed25519PrivateKey.generate(), rsa.generate_private_key(65537, 2048)
# The public key, and how the private one signs.
KINDS: dict[str, tuple[Any, Any]] = {
    "ES256": (
        ES256.from_cryptography_key(EC.public_key()),
        lambda m: EC.sign(m, ec.ECDSA(SHA256())),
    ),
    "EdDSA": (EdDSA.from_cryptography_key(ED.public_key()), ED.sign),
    "RS256": (
        RS256.from_cryptography_key(RSA.public_key()),
        lambda m: RSA.sign(m, padding.PKCS1v15(), SHA256()),
    ),
}
OTHER = (
    ES384.from_cryptography_key(EC_384.public_key()),
    lambda m: EC_384.sign(m, ec.ECDSA(SHA384())),
)


def signed_by(public_key: Any, signs: Any) -> tuple[dict[str, str], SigningKey]:
    data = AuthenticatorData.create(sha256(b"localhost"), VERIFIED, 7)
    client = CollectedClientData.create("webauthn.get", challenge_of(STATEMENT), ORIGIN)
    assertion = {
        "credential": "b25l",
        "authenticator_data": websafe_encode(data),
        "client_data": websafe_encode(client),
        "signature": websafe_encode(signs(data + client.hash)),
        "nonce": "n",
    }
    encoded = websafe_encode(cbor.encode(dict(public_key)))
    return assertion, SigningKey("b25l", encoded, "localhost", ORIGIN)


def faults_of_both(
    assertion: Any, key: SigningKey, statement: Any = STATEMENT
) -> tuple[list[str], list[str]]:
    theirs = second.assertion_faults(assertion, statement, key.as_json())
    return [*assertion_faults(assertion, statement, key)], [*theirs]


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_both_accept_what_a_key_signed_and_nothing_else(kind):
    assertion, key = signed_by(*kind)

    assert faults_of_both(assertion, key) == ([], [])
    for faults in faults_of_both(assertion, key, {**STATEMENT, "transaction": "two"}):
        assert faults == ["its assertion is of something else."]
    other, _key = signed_by(OTHER[0], OTHER[1])
    forged = {**assertion, "signature": other["signature"]}
    for faults in faults_of_both(forged, key):
        assert faults == ["its signature is not of this key."]


def test_no_other_algorithm_signs():
    assert faults_of_both(*signed_by(*OTHER)) == (["its assertion cannot be read."],) * 2


PARTS = dict(KINDS["ES256"][0])
SMALL, WITH_3 = rsa.generate_private_key(65537, 1024), rsa.generate_private_key(3, 2048)
NO_KEYS: dict[str, tuple[dict[int, Any], Any]] = {
    "true for a number": ({**PARTS, 1: 2, -1: True}, KINDS["ES256"][1]),
    "an array for bytes": ({**PARTS, -2: [*PARTS[-2]]}, KINDS["ES256"][1]),
    "one byte too many": ({**PARTS, -2: b"\0" + PARTS[-2]}, KINDS["ES256"][1]),
    "one member too many": ({**PARTS, 2: b"kid"}, KINDS["ES256"][1]),
    "a short modulus": (
        dict(RS256.from_cryptography_key(SMALL.public_key())),
        lambda m: SMALL.sign(m, padding.PKCS1v15(), SHA256()),
    ),
    "another exponent": (
        dict(RS256.from_cryptography_key(WITH_3.public_key())),
        lambda m: WITH_3.sign(m, padding.PKCS1v15(), SHA256()),
    ),
}


@pytest.mark.parametrize("kind", NO_KEYS.values(), ids=NO_KEYS)
def test_a_key_has_one_form_for_both(kind):
    assert faults_of_both(*signed_by(*kind)) == (["its assertion cannot be read."],) * 2


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=20)
    | st.binary(max_size=50).map(websafe_encode),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=5,
)


@given(
    changed=st.dictionaries(
        st.sampled_from(("credential", "authenticator_data", "client_data", "signature", "nonce")),
        VALUES,
        min_size=1,
    ),
    public_key=st.none() | st.binary(max_size=80).map(websafe_encode),
)
def test_whatever_stands_there_both_name_a_fault(changed, public_key):
    assertion, key = signed_by(*KINDS["EdDSA"])
    broken = {**assertion, **changed}
    if public_key is not None:
        key = SigningKey("b25l", public_key, "localhost", ORIGIN)
    changed_what_is_signed = {**broken, "nonce": "n"} != assertion or public_key is not None

    ours, theirs = faults_of_both(broken, key)

    if changed_what_is_signed or not isinstance(broken["nonce"], str):
        assert (bool(ours), bool(theirs)) == (True, True)


@pytest.mark.parametrize("nested", ["[" * 2_900, '{"a":' * 580])
def test_what_is_nested_deeply_cannot_be_read(nested):
    assertion, key = signed_by(*KINDS["ES256"])
    deep = {**assertion, "client_data": websafe_encode(nested.encode())}
    maps = SigningKey("b25l", websafe_encode(b"\xa1" * 2_900), "localhost", ORIGIN)

    assert faults_of_both(deep, key) == (["its assertion cannot be read."],) * 2
    assert faults_of_both(assertion, maps) == (["its assertion cannot be read."],) * 2
