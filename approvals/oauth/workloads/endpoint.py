"""The token endpoint for agents that sign in by themselves; the toolkit has the rest of it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from functools import partial

from django.db.transaction import atomic
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils import timezone

from approvals.configuration.oauth_settings import ACCESS_TOKEN_S, JWT_BEARER
from approvals.oauth.issuer_tables import Issuer, IssuerRule, UsedAssertion
from approvals.oauth.tokens import InvalidTarget, resource_of
from approvals.oauth.workloads import certificates
from approvals.oauth.workloads.assertions import (
    Accepted,
    NotAccepted,
    accepted,
    accepted_certificate,
)
from approvals.oauth.workloads.keys import AGAIN_S, KeysAway
from approvals.web.sign_in.authentication import address_of
from ledger import limits
from ledger.agents import narrowed
from ledger.errors import LimitReached
from ledger.models import AgentToken

__all__ = ["NotAccepted", "explained", "limited", "with_workloads"]
logger = logging.getLogger(__name__)

ASK = "An operator can look why: assent manage check_issuer, and the log."
View = Callable[[HttpRequest], HttpResponse]


def limited(view: View) -> View:
    """Whoever fails again and again, as somebody who guesses secrets does, has to wait."""

    def door(request: HttpRequest) -> HttpResponse:
        address = address_of(request)
        try:
            # Of the address alone: a client's name is no secret, and must not lock it out.
            limits.attempt_sign_in(address, "", limits.Door.TOKENS)
        except LimitReached as refusal:
            answer = _refused("slow_down", str(refusal), 429)
            answer["Retry-After"] = "60"
            return answer
        answer = view(request)
        if answer.status_code in {200, 503}:
            limits.sign_in_succeeded(address, "", limits.Door.TOKENS)
        return answer

    return door


def with_workloads(toolkit: View) -> View:
    """The toolkit's token endpoint, and ours."""
    return partial(_answer, toolkit)


def _answer(toolkit: View, request: HttpRequest) -> HttpResponse:
    grant, agent = request.POST.get("grant_type", ""), request.POST.get("client_id", "")
    try:
        has_certificate = bool(certificates.header_in(request))
        claims = certificates.claims_of(request) if has_certificate else {}
        if grant == JWT_BEARER:
            return _issue(request, accepted(request.POST.get("assertion", ""), agent))
        if claims and grant == "client_credentials" and not _has_secret(request):
            return _issue(request, accepted_certificate(claims, agent))
    except NotAccepted as refusal:
        logger.warning("no token for %s: %s", address_of(request), refusal)
        is_of_assertion = grant == JWT_BEARER
        return _refused("invalid_grant" if is_of_assertion else "invalid_client", ASK, 400)
    except KeysAway as failure:
        logger.warning("no token for %s: %s", address_of(request), failure)
        answer = _refused("temporarily_unavailable", "The issuer's keys cannot be read now.", 503)
        answer["Retry-After"] = f"{AGAIN_S:.0f}"
        return answer
    return toolkit(request)


def _has_secret(request: HttpRequest) -> bool:
    return "HTTP_AUTHORIZATION" in request.META or "client_secret" in request.POST


def _issue(request: HttpRequest, acceptance: Accepted) -> HttpResponse:
    """Raises ``NotAccepted`` for what was used before."""
    rule, asked = acceptance.rule, request.POST.get("scope", "").split()
    scopes = narrowed(frozenset(rule.scopes), asked or rule.scopes)
    if not scopes or not scopes >= set(asked):
        return _refused("invalid_scope", f"It may ask for: {' '.join(rule.scopes)}", 400)
    try:
        resource = resource_of(request.POST.getlist("resource"), of_person=False)
    except InvalidTarget as refusal:
        return _refused("invalid_target", str(refusal.description), 400)
    with atomic():
        _hold(rule)
        _use_up(acceptance.used)
        _, token = AgentToken.issue(
            rule.agent,
            scopes=sorted(scopes),
            expires_at=timezone.now() + timedelta(seconds=ACCESS_TOKEN_S),
            is_temporary=True,
            issued_by=acceptance.issued_by,
            resource=resource,
        )
    answer = JsonResponse(
        {
            "access_token": token,
            "token_type": "Bearer",
            "expires_in": ACCESS_TOKEN_S,
            "scope": " ".join(sorted(scopes)),
        }
    )
    answer["Cache-Control"] = "no-store"
    return answer


def _hold(rule: IssuerRule) -> None:
    """Until the token is stored, whoever changes the issuer waits, and then ends the token too."""
    issuer = Issuer.objects.select_for_update(no_key=True).filter(pk=rule.issuer_id, is_active=True)
    if not issuer or not IssuerRule.objects.filter(pk=rule.pk).exists():
        raise NotAccepted("Its issuer was changed just now.")


def _use_up(used: UsedAssertion | None) -> None:
    if used is None:
        return
    _, is_new = UsedAssertion.objects.get_or_create(
        digest=used.digest, defaults={"expires_at": used.expires_at}
    )
    if not is_new:
        raise NotAccepted("It was used before (jti): its program has to get a new one.")


def explained(token: str, agent: str = "") -> str:
    """The agent and the scopes that a token would give, in words; it gives none.

    Raises ``NotAccepted``, also if its issuer's keys are away.
    """
    try:
        acceptance = accepted(token, agent)
    except KeysAway as failure:
        raise NotAccepted(str(failure)) from None
    used, rule = acceptance.used, acceptance.rule
    if used and UsedAssertion.objects.filter(digest=used.digest).exists():
        raise NotAccepted("It was used before (jti): get a new one.")
    return f"It is accepted, as the agent {rule.agent}, with the scopes {', '.join(rule.scopes)}."


def _refused(error: str, description: str, status: int) -> HttpResponse:
    return JsonResponse({"error": error, "error_description": description}, status=status)
