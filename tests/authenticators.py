"""An authenticator in a few lines: makes passkeys, and signs as a browser would have it sign."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from django.contrib.auth.models import User
from fido2.cose import ES256
from fido2.utils import sha256, websafe_decode, websafe_encode
from fido2.webauthn import (
    Aaguid,
    AttestationObject,
    AttestedCredentialData,
    AuthenticatorData,
    CollectedClientData,
)

from approvals.people.sign_in import begin_registering_passkey, register_passkey

ORIGIN = "http://localhost:8000"
PRESENT = AuthenticatorData.FLAG.UP
VERIFIED = PRESENT | AuthenticatorData.FLAG.UV


@dataclass
class Authenticator:
    """One passkey. ``counter`` goes up with each use."""

    name: bytes = b"a passkey"
    key: ec.EllipticCurvePrivateKey = field(
        default_factory=lambda: ec.generate_private_key(ec.SECP256R1())
    )
    counter: int = 0

    @property
    def credential(self) -> str:
        return websafe_encode(self.name)

    def make(self, options: dict[str, Any], origin: str = ORIGIN) -> str:
        """The browser's answer to options for a new passkey."""
        public_key = ES256.from_cryptography_key(self.key.public_key())
        made = AttestedCredentialData.create(Aaguid.NONE, self.name, public_key)
        flags = VERIFIED | AuthenticatorData.FLAG.AT
        data = AuthenticatorData.create(sha256(b"localhost"), flags, self.counter, bytes(made))
        return self._answer(
            clientDataJSON=_client_data("webauthn.create", options, origin),
            attestationObject=AttestationObject.create("none", data, {}),
        )

    def use(
        self,
        options: dict[str, Any],
        *,
        origin: str = ORIGIN,
        host: str = "localhost",
        flags: AuthenticatorData.FLAG = VERIFIED,
        kind: str = "webauthn.get",
        handle: bytes = b"",
    ) -> str:
        """The browser's answer to options for signing."""
        self.counter += 1
        data = AuthenticatorData.create(sha256(host.encode()), flags, self.counter)
        client = _client_data(kind, options, origin)
        signature = self.key.sign(data + client.hash, ec.ECDSA(SHA256()))
        return self._answer(
            clientDataJSON=client, authenticatorData=data, signature=signature, userHandle=handle
        )

    def add_to(self, person: User, name: str = "Key") -> None:
        """Add it to the person's account, as the desk does."""
        options, state = begin_registering_passkey(person)
        register_passkey(person, state, self.make(options), name)

    def _answer(self, **response: bytes) -> str:
        encoded = {part: websafe_encode(content) for part, content in response.items()}
        name = self.credential
        return json.dumps({"id": name, "rawId": name, "type": "public-key", "response": encoded})


def _client_data(kind: str, options: dict[str, Any], origin: str) -> CollectedClientData:
    challenge = websafe_decode(options["publicKey"]["challenge"])
    return CollectedClientData.create(kind, challenge, origin)
