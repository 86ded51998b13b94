"""Codes and tokens as the toolkit makes them, each bound to a connection and to an agent."""

from __future__ import annotations

import secrets
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db.transaction import atomic
from django.utils import timezone
from oauth2_provider.oauth2_validators import OAuth2Validator
from oauthlib.oauth2.rfc6749 import errors

from approvals.oauth import connections
from approvals.oauth.models import AccessToken, Client, Code, Connection, RefreshToken
from ledger.models import AgentToken, Scope
from ledger.principals import Surface

MCP = "mcp"  # as a2a.doors.mcp_server has it
REFRESH_PREFIX = "assent_refresh_"
CHALLENGE_LENGTH = 43  # of SHA-256 in base64url without padding
# Two processes of one program may use a refresh token at one moment; only one of them gets a token.
AT_ONE_MOMENT = timedelta(seconds=10)


def new_access_token(request: object) -> str:
    return AgentToken.new()


def new_refresh_token(request: object) -> str:
    return REFRESH_PREFIX + secrets.token_urlsafe(32)


def resources() -> dict[str, str]:
    """The resources of this installation (RFC 8707), and what a token for each is limited to."""
    mcp = f"{settings.LIVE_URL}/mcp"
    everything = dict.fromkeys((settings.PUBLIC_URL, settings.LIVE_URL), "")
    return {mcp: MCP, **everything}


def resource_of(uris: list[str], *, of_person: bool) -> str:
    """The limit of a token for these. Raises ``InvalidTarget``.

    A person's sign-in opens ``/mcp`` alone. Without any resource it is meant.
    """
    known = resources()
    named = {known.get(uri.rstrip("/"), "?") for uri in uris} or {MCP if of_person else ""}
    if len(named) != 1 or "?" in named or (of_person and named != {MCP}):
        raise InvalidTarget
    return named.pop()


class InvalidTarget(errors.CustomOAuth2Error):
    def __init__(self, **known: Any) -> None:
        addresses = " or ".join(resources())
        super().__init__("invalid_target", description=f"There are: {addresses}", **known)


class Validator(OAuth2Validator):
    """The toolkit's rules, and ours: a token belongs to an agent, and to one connection."""

    def _load_application(self, client_id: str, request: Any) -> Client | None:
        """As it is known: only the consent page has a client's document fetched."""
        known = Client.objects.filter(client_id=client_id).select_related("agent")
        client: Client | None = known.first()
        if client is not None and not client.is_usable(request):
            client = None
        request.client = client
        return client

    def validate_scopes(
        self, client_id: str, scopes: list[str], client: Client, request: Any, *_: Any, **__: Any
    ) -> bool:
        """Nothing that decides, and nothing that reads what other agents propose."""
        return bool(scopes) and set(scopes) <= {Scope.PROPOSE.value, Scope.SUBMIT.value}

    # --- the code ---------------------------------------------------------------------------------

    def _create_authorization_code(self, request: Any, code: Any, expires: Any = None) -> Code:
        resource_of(getattr(request, "resource", None) or [], of_person=True)
        if len(request.code_challenge) != CHALLENGE_LENGTH:
            raise errors.InvalidRequestError(
                description="The code_challenge is no SHA-256 (RFC 7636, 4.2).", request=request
            )
        row: Code = super()._create_authorization_code(request, code, expires)
        row.connection = request.connection
        row.save(update_fields=["connection"])
        return row

    def validate_code(
        self, client_id: str, code: str, client: Client, request: Any, *a: Any, **k: Any
    ) -> bool:
        if not super().validate_code(client_id, code, client, request, *a, **k):
            return False
        return _carries_on(request, Code.objects.get(code=code, application=client).connection_id)

    # --- tokens -----------------------------------------------------------------------------------

    def validate_refresh_token(
        self, refresh_token: str, client: Client, request: Any, *a: Any, **k: Any
    ) -> bool:
        row = RefreshToken.objects.filter(token_checksum=AgentToken.hash_of(refresh_token)).first()
        if row is None or row.application_id != client.pk:
            return False  # another client's: nothing of it is touched
        if row.revoked is not None:
            if timezone.now() - row.revoked > AT_ONE_MOMENT:
                _end_stolen(row)
            return False
        is_valid = super().validate_refresh_token(refresh_token, client, request, *a, **k)
        return is_valid and _carries_on(request, row.connection_id)

    def _save_bearer_token(self, token: Any, request: Any, *args: Any, **kwargs: Any) -> None:
        """Refuse whoever was a moment later: the toolkit would repeat a token that nobody keeps."""
        used: RefreshToken | None = getattr(request, "refresh_token_instance", None)
        if used is not None:
            unused = RefreshToken.objects.select_for_update().filter(pk=used.pk, revoked=None)
            if not unused:
                raise errors.InvalidGrantError(request=request)
        super()._save_bearer_token(token, request, *args, **kwargs)

    def _create_access_token(
        self, expires: Any, request: Any, token: Any, source_refresh_token: Any = None
    ) -> AccessToken:
        connection: Connection | None = getattr(request, "connection", None)
        with atomic():
            if connection is None:
                _hold(request.client)
            row: AccessToken = super()._create_access_token(
                expires, request, token, source_refresh_token
            )
            limits = resource_of(request.resource, of_person=connection is not None)
            agent_token, _ = AgentToken.issue(
                connection.agent if connection else request.client.agent,
                token=token["access_token"],
                scopes=token["scope"].split(),
                expires_at=expires,
                resource=limits,
                person=connection.person if connection else None,
                is_temporary=True,
                issued_by=str(request.client)[:200],
            )
            row.connection, row.agent_token = connection, agent_token
            row.save(update_fields=["connection", "agent_token"])
        return row

    def _create_refresh_token(self, request: Any, *args: Any) -> RefreshToken:
        row: RefreshToken = super()._create_refresh_token(request, *args)
        row.connection = request.connection
        row.save(update_fields=["connection"])
        return row


def _hold(client: Client) -> None:
    """Until the token is stored, whoever switches the client off waits, and then ends it too."""
    if not Client.objects.select_for_update(no_key=True).filter(pk=client.pk, is_active=True):
        raise errors.InvalidClientError


def _end_stolen(row: RefreshToken) -> None:
    """Whoever came first may not have been its program."""
    connections.end(
        Connection.objects.filter(pk=row.connection_id or 0),
        by=connections.TOKEN_ENDPOINT,
        via=Surface.SYSTEM,
        reason="A refresh token was used a second time.",
    )


def _carries_on(request: Any, connection_id: int | None) -> bool:
    """True if its connection still stands; the request learns which it is."""
    standing = Connection.objects.standing().filter(pk=connection_id or 0)
    request.connection = standing.select_related("agent", "person").first()
    return request.connection is not None
