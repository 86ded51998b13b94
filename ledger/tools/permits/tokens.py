"""The permit itself: a JWT, signed with the keys of ``ASSENT_PERMIT_KEY``, checked offline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.conf import settings

from ledger.foundation.crypto import signing_keys
from ledger.foundation.crypto.signing_keys import ALGORITHM

TYPE = "permit+jwt"
KID = "permit-"  # how the ids of keys for permits begin, so that nobody takes another for one
LONGEST_S = 300
TOKEN_MOST = 20_000  # characters
REQUIRED = ("iss", "aud", "sub", "jti", "iat", "exp", "txn", "operation_key")


class NoPermitKey(Exception):
    """``ASSENT_PERMIT_KEY`` is not set, so no permit is issued."""


class PermitRefused(Exception):
    """The text is no permit that counts; the message says why."""


def kid_of(key: Ed25519PrivateKey) -> str:
    return KID + signing_keys.key_id(key)


def public_keys() -> list[dict[str, str]]:
    """The public keys, current and former, as JSON Web Keys."""
    keys = [signing_keys.key_of(text) for text in settings.PERMIT_KEYS]
    return [{**signing_keys.jwk(key), "kid": kid_of(key)} for key in keys]


def signed(claims: Mapping[str, Any]) -> str:
    """Raises ``NoPermitKey``."""
    key = signing_keys.signing_key(settings.PERMIT_KEYS)
    if key is None:
        raise NoPermitKey
    headers = {"typ": TYPE, "kid": kid_of(key)}
    return jwt.encode(dict(claims), key, algorithm=ALGORITHM, headers=headers)


def verified(
    token: str,
    keys: Iterable[Mapping[str, Any]],
    *,
    audience: str | None = None,
    leeway_s: float = 0,
    is_timed: bool = True,
) -> dict[str, Any]:
    """The claims of a permit that one of these JSON Web Keys signed. Raises ``PermitRefused``.

    Without ``audience`` that of the permit is not checked; without ``is_timed`` its times neither.
    """
    key = _key_for(token, keys)
    options: Any = {
        "require": list(REQUIRED),
        "verify_aud": audience is not None,
        "verify_exp": is_timed,
        "verify_iat": is_timed,
    }
    try:
        claims: dict[str, Any] = jwt.decode(
            token, key, [ALGORITHM], options=options, audience=audience, leeway=leeway_s
        )
    except jwt.InvalidTokenError as refusal:
        raise PermitRefused(f"{refusal}.".replace("..", ".")) from refusal
    if claims["exp"] - claims["iat"] > LONGEST_S:
        raise PermitRefused(f"It would be good for more than {LONGEST_S} seconds.")
    return claims


def _key_for(token: str, keys: Iterable[Mapping[str, Any]]) -> jwt.PyJWK:
    """The key that the header names. The header says nothing else that is believed."""
    if len(token) > TOKEN_MOST:
        raise PermitRefused(f"It has more than {TOKEN_MOST} characters.")
    try:
        header = jwt.get_unverified_header(token)
    except jwt.InvalidTokenError as refusal:
        raise PermitRefused("It is no JSON Web Token.") from refusal
    if (header.get("typ"), header.get("alg")) != (TYPE, ALGORITHM):
        raise PermitRefused(f"Its header does not say {TYPE} and {ALGORITHM}.")
    kid = str(header.get("kid", ""))
    for key in keys:
        if kid.startswith(KID) and key.get("kid") == kid:
            return _public(key)
    raise PermitRefused(f"None of the keys has the id {kid!r:.80}.")


def _public(key: Mapping[str, Any]) -> jwt.PyJWK:
    if (key.get("kty"), key.get("crv")) != ("OKP", "Ed25519"):
        raise PermitRefused("The key that it names is no Ed25519 key.")
    try:
        return jwt.PyJWK(dict(key), ALGORITHM)
    except jwt.PyJWTError as failure:
        raise PermitRefused(f"The key that it names cannot be read: {failure}") from failure
