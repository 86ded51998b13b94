"""Trusting issuers, which takes two operators; to switch one off takes one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from django.db.models import QuerySet
from django.db.models.functions import Now
from django.db.transaction import atomic

from approvals.oauth.changes import IssuerChange
from approvals.oauth.issuer_tables import CERTIFICATES, Issuer, IssuerRule
from approvals.oauth.workloads.assertions import ALGORITHMS
from ledger import seals
from ledger.agents import ONE_TOOL
from ledger.errors import InvalidRequest, NotFound, Sentence
from ledger.events import four_eyes, record_change
from ledger.foundation import http_out
from ledger.models import Agent, AgentToken, ChangeRequest, Scope, Tenant
from ledger.principals import Principal, Surface

KIND = "issuer"
EVENTS = (IssuerChange.ASKED, IssuerChange.DECLINED)
# Claims that say nothing of which program it is.
OF_EVERY_TOKEN = {"iss", "aud", "exp", "iat", "nbf", "jti"}
OF_CERTIFICATES = {"spiffe", "sha256"}
PRIVATE = {"d", "p", "q", "k"}
SHA256 = re.compile("[0-9a-f]{64}")
MOST_MINUTES, MOST_RULES = 1440, 200


def ask(
    tenant: Tenant, issuer: str, document: Mapping[str, Any], *, by: Principal, via: Surface
) -> ChangeRequest:
    """Ask to trust an issuer, or to trust it otherwise than now. Raises ``InvalidRequest``."""
    check(tenant, issuer, document)
    with atomic():
        Tenant.objects.select_for_update(no_key=True).get(pk=tenant.pk)
        before = version_of(tenant.pk, issuer)
        return four_eyes.ask(
            KIND, issuer, document, in_place_of=before, tenant=tenant.pk, by=by, via=via
        )


def version_of(tenant: str, issuer: str) -> str:
    """A digest of the issuer as it is; empty if it is not known."""
    row = Issuer.objects.filter(tenant=tenant, issuer=issuer).first()
    return seals.digest_of(row.as_document()) if row else ""


def switch_off(row: Issuer, *, by: Principal, via: Surface) -> None:
    """From the next request on it gives no token, and those that it gave open nothing."""
    with atomic():
        if Issuer.objects.filter(pk=row.pk, is_active=True).update(is_active=False):
            _end_tokens(row)
            _record(row.tenant_id, row.issuer, IssuerChange.SWITCHED_OFF, by, via)


def _end_tokens(row: Issuer) -> None:
    given = AgentToken.objects.filter(is_temporary=True, revoked_at=None)
    given.filter(issued_by__startswith=row.mark).update(revoked_at=Now())


# --- what is accepted -----------------------------------------------------------------------------


def check(tenant: Tenant, issuer: str, document: Mapping[str, Any]) -> None:
    """Raises ``InvalidRequest`` for what could not be trusted."""
    is_address = issuer.startswith("https://") and not re.search(r"\s", issuer)
    if len(issuer) > 150 or not (is_address or issuer == CERTIFICATES):
        raise InvalidRequest(Sentence("The issuer is an https address, or client-certificate."))
    if issuer != CERTIFICATES:
        _check_keys(document)
    rules = document["rules"]
    if not isinstance(rules, list) or len(rules) > MOST_RULES:
        raise InvalidRequest(Sentence("The rules are a list of at most 200."))
    agents = agents_of(tenant)
    for rule in rules:
        _check_rule(rule, agents, is_of_certificates=issuer == CERTIFICATES)


def agents_of(tenant: Tenant) -> QuerySet[Agent]:
    return Agent.objects.filter(tenant=tenant)


def _check_keys(document: Mapping[str, Any]) -> None:
    url, keys = document["jwks_url"], document["keys"]
    if bool(url) == bool(keys):
        raise InvalidRequest(Sentence("Give the address of its keys, or the keys themselves."))
    if not document["algorithms"] or not set(document["algorithms"]) <= ALGORITHMS.keys():
        raise InvalidRequest(Sentence("Choose at least one algorithm."))
    if not 1 <= document["longest_minutes"] <= MOST_MINUTES:
        raise InvalidRequest(Sentence("A token may expire 1 to 1440 minutes ahead."))
    if not isinstance(keys, list) or any(
        not isinstance(key, dict) or key.get("kty") == "oct" or PRIVATE & key.keys() for key in keys
    ):
        raise InvalidRequest(Sentence("The keys are a list of public JSON Web Keys."))
    if url:
        try:
            http_out.check_form(url)
        except http_out.AddressRefused as refusal:
            raise InvalidRequest(
                Sentence("The address of its keys: {why}", why=str(refusal))
            ) from None
        if not url.startswith("https://"):
            raise InvalidRequest(Sentence("The address of its keys begins with https."))


def _check_rule(rule: Any, agents: QuerySet[Agent], *, is_of_certificates: bool) -> None:
    if not isinstance(rule, dict) or rule.keys() != {"agent", "scopes", "claims"}:
        raise InvalidRequest(Sentence("A rule has agent, scopes and claims, and nothing else."))
    slug, scopes, claims = rule["agent"], rule["scopes"], rule["claims"]
    if not isinstance(slug, str) or not agents.filter(slug=slug).exists():
        raise InvalidRequest(Sentence("There is no agent {name} here.", name=str(slug)[:63]))
    if not isinstance(scopes, list) or not scopes or not all(map(_is_scope, scopes)):
        known = ", ".join(Scope.values)
        raise InvalidRequest(Sentence("The scopes are some of: {known}.", known=known))
    if not isinstance(claims, dict) or not claims.keys() - OF_EVERY_TOKEN:
        raise InvalidRequest(Sentence("A rule names claims that say which program it is."))
    if not all(type(value) in {str, int, bool} and value != "" for value in claims.values()):
        raise InvalidRequest(Sentence("The values of claims are texts, whole numbers or truths."))
    if is_of_certificates and (
        not claims.keys() <= OF_CERTIFICATES
        or not SHA256.fullmatch(str(claims.get("sha256", "0" * 64)))
    ):
        raise InvalidRequest(
            Sentence("Rules of certificates name spiffe, or sha256 as 64 small hexadecimal digits.")
        )


def _is_scope(scope: Any) -> bool:
    return isinstance(scope, str) and (scope in Scope.values or bool(_ONE.fullmatch(scope)))


_ONE = re.compile(re.escape(ONE_TOOL) + r"[\w.-]{1,100}")


# --- as the four-eyes rule calls it ---------------------------------------------------------------


def _apply(request: ChangeRequest, by: Principal, via: Surface) -> None:
    """Raises ``NotFound, InvalidRequest``."""
    tenant, document = Tenant.objects.get(pk=request.tenant), dict(request.after)
    if version_of(tenant.pk, request.subject) != request.in_place_of:
        raise NotFound(four_eyes.NO_SUCH_CHANGE)
    check(tenant, request.subject, document)
    rules = document.pop("rules")
    row, _ = Issuer.objects.update_or_create(
        tenant=tenant, issuer=request.subject, defaults=document
    )
    _end_tokens(row)
    row.rules.all().delete()
    agents = {agent.slug: agent for agent in agents_of(tenant)}
    for rule in rules:
        IssuerRule.objects.create(
            issuer=row,
            agent=agents[rule["agent"]],
            claims=rule["claims"],
            scopes=rule["scopes"],
        )
    _record_request(request, IssuerChange.TRUSTED, by, via, **request.asker)


def _record_request(
    request: ChangeRequest, kind: IssuerChange, by: Principal, via: Surface, **details: Any
) -> None:
    _record(request.tenant, request.subject, kind, by, via, **request.after, **details)


def register() -> None:
    four_eyes.register(four_eyes.Kind(*EVENTS, _record_request, _apply), KIND)


def _record(
    tenant: str, issuer: str, kind: IssuerChange, by: Principal, via: Surface, **details: Any
) -> None:
    record_change(
        f"issuer:{tenant}/{issuer}"[:200],
        kind,
        tenant=tenant,
        by=by,
        via=via,
        name=issuer,
        details=details,
    )
