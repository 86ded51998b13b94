"""From a token of a trusted issuer, or a client certificate, to the agent whose it is (RFC 7523).

Exactly one rule has to fit. What is not certain is refused.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import jwt
from django.conf import settings
from jwt import PyJWK

from approvals.oauth.issuer_tables import CERTIFICATES, Issuer, IssuerRule, UsedAssertion
from approvals.oauth.workloads import keys
from ledger.foundation.characters import is_storable

# The kind of key, and the curve, that each algorithm takes: no key is used for another one.
ALGORITHMS = {"RS256": ("RSA", None), "ES256": ("EC", "P-256"), "EdDSA": ("OKP", "Ed25519")}
RSA_BITS = range(2048, 8193)
LONGEST_TOKEN = 12_000  # characters
LEEWAY_S = 30
MOST_TRIED = 5  # keys that have the same id, or none
MOST_TOLD = 5  # rules of which is said why they do not fit

WRONG: tuple[type[Exception], ...] = (
    jwt.PyJWTError,
    ValueError,
    TypeError,
    OverflowError,
    RecursionError,
    AttributeError,
    KeyError,
)


class NotAccepted(Exception):
    """It is not accepted. The reason is for operators; whoever sent it is not told."""


@dataclass(frozen=True)
class Accepted:
    """The rule that fits, and what is known of the token."""

    rule: IssuerRule
    subject: str
    used: UsedAssertion | None = None

    @property
    def issued_by(self) -> str:
        return f"{self.rule.issuer.mark}{self.subject}"[:200]


def accepted(token: str, agent: str = "") -> Accepted:
    """The rule that fits; ``agent`` (``tenant/slug``) chooses where rules of several do.

    Uses nothing up. Raises ``NotAccepted`` and ``keys.KeysAway``.
    """
    header, unverified = _read(token)
    name = unverified.get("iss")
    rows = Issuer.objects.filter(issuer=str(name), is_active=True).order_by("pk")
    if not isinstance(name, str) or name == CERTIFICATES or not rows:
        raise NotAccepted(f"No active issuer here is named {str(name)[:150]!r} (iss).")
    claims_by_row, troubles = {}, []
    for row in rows:
        try:
            claims_by_row[row] = _verified(row, token, header)
        except (NotAccepted, keys.KeysAway) as trouble:
            troubles.append(trouble)
    if not claims_by_row:
        raise troubles[0]
    rule = _only_rule(claims_by_row, agent)
    claims = claims_by_row[rule.issuer]
    return Accepted(rule, str(claims.get("sub", "")), _use(rule.issuer, claims))


def accepted_certificate(claims: dict[str, Any], agent: str = "") -> Accepted:
    """The same of a certificate that a trusted proxy has verified. Raises ``NotAccepted``."""
    rows = Issuer.objects.filter(issuer=CERTIFICATES, is_active=True)
    rule = _only_rule(dict.fromkeys(rows, claims), agent)
    return Accepted(rule, str(claims.get("spiffe") or claims["sha256"]))


def _read(token: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Header and claims, of which nothing is proven yet."""
    if len(token) > LONGEST_TOKEN:
        raise NotAccepted(f"It has more than {LONGEST_TOKEN} characters.")
    try:
        header = jwt.get_unverified_header(token)
        claims = jwt.decode(token, options={"verify_signature": False})
    except WRONG:
        raise NotAccepted("It is no JSON Web Token.") from None
    if str(header.get("alg")) not in ALGORITHMS:
        known = ", ".join(ALGORITHMS)
        raise NotAccepted(f"Its algorithm is {header.get('alg')!r:.40}; allowed are {known}.")
    if not all(is_storable(str(claims.get(name))) for name in ("iss", "sub", "jti")):
        raise NotAccepted("It has a character that no column can have.")
    if "crit" in header:
        raise NotAccepted("Its header has critical members (crit), which are not known here.")
    return header, claims


def _verified(row: Issuer, token: str, header: dict[str, Any]) -> dict[str, Any]:
    """The claims, once signature, audience and times are right."""
    algorithm, kid = header["alg"], header.get("kid")
    if algorithm not in row.algorithms:
        allowed = ", ".join(row.algorithms)
        raise NotAccepted(f"Its algorithm is {algorithm}; of this issuer, {allowed} counts.")
    known = row.keys or keys.keys_at(row.jwks_url, kid)
    trouble: Exception = NotAccepted(
        f"The issuer has no key {str(kid)[:100]!r} (kid) for {algorithm}."
    )
    for key in _fitting_keys(known, algorithm, kid):
        try:
            claims = _decoded(row, token, key, algorithm)
        except jwt.InvalidSignatureError:
            trouble = NotAccepted(
                "Its signature does not fit the issuer's key: another key, or another issuer of "
                "the same name."
            )
        except jwt.InvalidAudienceError:
            raise NotAccepted(_for_another(row, token)) from None
        except WRONG as failure:
            raise NotAccepted(f"{failure}") from failure
        else:
            _check_end(row, claims)
            return claims
    raise NotAccepted(str(trouble)) from None


def _fitting_keys(known: keys.Keys, algorithm: str, kid: Any) -> keys.Keys:
    kind, curve = ALGORITHMS[algorithm]
    fitting = [
        key
        for key in known
        if key.get("kty") == kind
        and (curve is None or key.get("crv") == curve)
        and key.get("use", "sig") == "sig"
        and key.get("alg", algorithm) == algorithm
        and (kid is None or key.get("kid") == kid)
    ]
    return fitting[:MOST_TRIED]


def _decoded(row: Issuer, token: str, key: dict[str, Any], algorithm: str) -> dict[str, Any]:
    public = PyJWK(key, algorithm=algorithm).key
    if ALGORITHMS[algorithm][0] == "RSA" and public.key_size not in RSA_BITS:
        raise NotAccepted(f"The issuer's key has {public.key_size} bits: it takes 2048 to 8192.")
    claims: dict[str, Any] = jwt.decode(
        token,
        public,
        algorithms=[algorithm],
        audience=audience_of(row),
        issuer=row.issuer,
        leeway=LEEWAY_S,
        options={"require": ["exp", "iss", "aud"]},
    )
    return claims


def _for_another(row: Issuer, token: str) -> str:
    given = _read(token)[1].get("aud")
    return (
        f"It is for {str(given)[:150]!r} (aud), not for {audience_of(row)!r}: have its program ask "
        "for that, or enter the other one at the issuer."
    )


def audience_of(row: Issuer) -> str:
    return row.audience or str(settings.AUTHORIZATION_SERVER)


def _check_end(row: Issuer, claims: dict[str, Any]) -> None:
    ahead_s = int(claims["exp"]) - int(time.time())
    if ahead_s > row.longest_minutes * 60 + LEEWAY_S:
        raise NotAccepted(
            f"It expires in {ahead_s // 60} minutes: at most {row.longest_minutes} are allowed."
        )


def _only_rule(claims_by_row: dict[Issuer, dict[str, Any]], agent: str) -> IssuerRule:
    rules = IssuerRule.objects.filter(issuer__in=claims_by_row).select_related("agent", "issuer")
    fitting = [
        rule
        for rule in rules
        if _fits(rule.claims, claims_by_row[rule.issuer])
        and agent in {"", f"{rule.agent.tenant_id}/{rule.agent.slug}"}
    ]
    if not fitting:
        raise NotAccepted(
            f"No rule of the issuer fits its claims. {_misfits(rules, claims_by_row)}".rstrip()
        )
    if len(fitting) > 1:
        raise NotAccepted(
            f"{len(fitting)} rules fit its claims, and it has to be one: make them narrower. Where "
            "they are of different agents, client_id=tenant/agent chooses."
        )
    if not fitting[0].agent.is_active:
        raise NotAccepted(f"The agent {fitting[0].agent} is switched off.")
    return fitting[0]


def _fits(wanted: dict[str, Any], claims: dict[str, Any]) -> bool:
    """Equal in kind too: 1 is not true. A rule without claims fits nothing."""
    return bool(wanted) and all(
        name in claims and type(claims[name]) is type(value) and claims[name] == value
        for name, value in wanted.items()
    )


def _misfits(rules: Iterable[IssuerRule], claims_by_row: dict[Issuer, dict[str, Any]]) -> str:
    """For the first rules, the claims that are not equal; the token's signature is proven."""
    told = []
    for rule in list(rules)[:MOST_TOLD]:
        claims = claims_by_row[rule.issuer]
        differ = [
            f"{name} is {str(claims.get(name))[:100]!r}, not {str(value)[:100]!r}"
            for name, value in rule.claims.items()
            if not _fits({name: value}, claims)
        ]
        told.append(f"{rule.agent.slug}: {', '.join(differ) or 'another agent was asked for'}.")
    return " ".join(told)


def _use(row: Issuer, claims: dict[str, Any]) -> UsedAssertion | None:
    """The row that keeps it from counting twice; ``None`` if it may, or has no ``jti``."""
    if row.is_reusable or "jti" not in claims:
        return None
    digest = hashlib.sha256(f"{row.issuer}\0{claims['jti']}".encode()).hexdigest()
    ends_at = datetime.fromtimestamp(int(claims["exp"]) + 2 * LEEWAY_S, UTC)
    return UsedAssertion(digest=digest, expires_at=ends_at)
