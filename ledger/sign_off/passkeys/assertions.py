"""Assertions: what a person's passkey signed, and every check of it. Pure.

An authenticator signs its own data and the SHA-256 of the browser's (https://www.w3.org/TR/webauthn-3/
sections 6.5 and 7.2). The browser's has a challenge: here the SHA-256 of a statement that says what
the person agrees to, in canonical JSON (RFC 8785).
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from cryptography.exceptions import InvalidSignature
from fido2 import cbor
from fido2.cose import CoseKey
from fido2.utils import websafe_decode, websafe_encode
from fido2.webauthn import AuthenticatorData, CollectedClientData

from ledger import seals
from ledger.errors import InvalidRequest, NotAllowed, Sentence

# In the details of an event: what its principal signed.
ASSERTION = "assertion"
# Each is text in base64url, without padding; ``nonce`` is part of the statement.
MEMBERS = frozenset({"credential", "authenticator_data", "client_data", "signature", "nonce"})
LONGEST = 4_000  # characters of a member
# Of ES256, EdDSA and RS256 (RFC 9053), which every verifier can check.
ALGORITHMS = frozenset({-7, -8, -257})
# The COSE keys of these, in the canonical form of CTAP2: byte by byte, so that all read the same.
KEYS = re.compile(
    rb"\xa5\x01\x02\x03\x26\x20\x01\x21\x58\x20.{32}\x22\x58\x20.{32}"
    rb"|\xa4\x01\x01\x03\x27\x20\x06\x21\x58\x20.{32}"
    rb"|\xa4\x01\x03\x03\x39\x01\x00\x20\x59(\x01\x00.{256}|\x01\x80.{384}|\x02\x00.{512})"
    rb"\x21\x43\x01\x00\x01",
    re.DOTALL,
)
UNREADABLE = (
    *(InvalidRequest, ValueError, TypeError, LookupError, AttributeError, RecursionError),
    struct.error,
)


@dataclass(frozen=True, slots=True)
class SigningKey:
    """The public half of a passkey with which a person signs, as the account's events have it.

    ``signs_from`` and ``ended_at`` are microseconds since 1970; 0: it has not ended. ``origin`` is
    the address of the installation where it was made, ``rp_id`` its host.
    """

    credential: str
    public_key: str  # COSE (RFC 9052), in base64url
    rp_id: str
    origin: str
    signs_from: int = 0
    ended_at: int = 0

    def as_json(self) -> dict[str, str]:
        return {
            "credential": self.credential,
            "public_key": self.public_key,
            "rp_id": self.rp_id,
            "origin": self.origin,
        }

    @property
    def fingerprint(self) -> str:
        """For people to compare: the first 16 digits of the SHA-256 of the public key, by fours."""
        digits = hashlib.sha256(websafe_decode(self.public_key)).hexdigest()
        return "\N{NO-BREAK SPACE}".join(digits[at : at + 4] for at in range(0, 16, 4))

    def may_sign_at(self, at: int) -> bool:
        """True if a key that was folded from the events before this time signs then.

        Whatever its time says, nothing counts whose event comes after that which ended the key.
        """
        return self.signs_from <= at and not self.ended_at


def public_key_of(key: SigningKey) -> CoseKey:
    """Raises one of ``UNREADABLE`` for what is no public key of an algorithm that signs."""
    raw = _decoded(key.public_key)
    if not KEYS.fullmatch(raw):
        raise ValueError(key.public_key)
    public_key = CoseKey.parse(cbor.decode(raw))  # type: ignore[arg-type]
    with suppress(InvalidSignature):
        public_key.verify(b"", b"")  # raises what else is wrong, as a point that is on no curve
    return public_key


def _decoded(text: str) -> bytes:
    """Raises ``ValueError`` for base64url that is written in another way."""
    raw: bytes = websafe_decode(text)
    if websafe_encode(raw) != text:
        raise ValueError(text)
    return raw


def challenge_of(statement: Mapping[str, Any]) -> bytes:
    return hashlib.sha256(seals.canonical(dict(statement))).digest()


def checked(assertion: Any) -> dict[str, str]:
    """The assertion, if it has the members of one. Raises ``InvalidRequest``."""
    if not isinstance(assertion, Mapping) or assertion.keys() != MEMBERS:
        raise InvalidRequest(f"An assertion has the members {', '.join(sorted(MEMBERS))}.")
    if not all(isinstance(each, str) and len(each) <= LONGEST for each in assertion.values()):
        raise InvalidRequest("A member of the assertion is no text, or too long.")
    return dict(assertion)


def assertion_faults(
    assertion: Any, statement: Mapping[str, Any], key: SigningKey
) -> Iterator[str]:
    """Check that the key signed the statement, and that its authenticator verified the person."""
    try:
        signed = checked(assertion)
        raw = {name: _decoded(signed[name]) for name in MEMBERS - {"nonce"}}
        of_browser = CollectedClientData(raw["client_data"])
        of_key = AuthenticatorData(raw["authenticator_data"])
        public_key, challenge = public_key_of(key), challenge_of(statement)
    except UNREADABLE:
        yield "its assertion cannot be read."
        return
    if signed["credential"] != key.credential:
        yield "its assertion names another key."
    if of_browser.type != CollectedClientData.TYPE.GET or of_browser.cross_origin is not False:
        yield "its assertion was made for something else than signing here."
    if of_browser.origin != key.origin:
        yield "its assertion was made at another address."
    if of_browser.challenge != challenge:
        yield "its assertion is of something else."
    if of_key.rp_id_hash != hashlib.sha256(key.rp_id.encode()).digest():
        yield "its assertion was made for another installation."
    if not (of_key.is_user_present() and of_key.is_user_verified()):
        yield "its assertion does not say that the key verified its person."
    try:
        public_key.verify(bytes(of_key) + of_browser.hash, raw["signature"])
    except (InvalidSignature, ValueError):
        yield "its signature is not of this key."


def refuse(faults: Iterable[str]) -> None:
    """Raises ``NotAllowed`` with the first of these faults of what a person signs now."""
    for fault in faults:
        raise NotAllowed(
            Sentence("Your signature does not count: {fault}", fault=fault),
            hint=Sentence("Nothing was decided. Look at it again, and sign once more."),
        )


def counter_of(assertion: Mapping[str, str]) -> int:
    """The signature counter of the authenticator; 0 where it has none. The assertion was checked"""
    return AuthenticatorData(websafe_decode(assertion["authenticator_data"])).counter
