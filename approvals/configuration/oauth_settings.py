"""Settings of the toolkit that is our authorization server (django-oauth-toolkit)."""

from __future__ import annotations

from typing import Any

SCOPES = {
    "propose": "propose, read and cancel its own transactions",
    "submit": "ask people, and give work to others",
}
JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
CODE_S, ACCESS_TOKEN_S, REFRESH_TOKEN_S = 60, 900, 30 * 86_400


def oauth_settings(issuer: str, *, registers_clients: bool) -> dict[str, Any]:
    """Authorization codes with PKCE (S256), and client credentials; nothing that RFC 9700 warns of.

    ``registers_clients``: whether strangers may register a client (RFC 7591).
    """
    return {
        "OIDC_ISS_ENDPOINT": issuer,  # or the answer's ``iss`` differs from the metadata's issuer
        "OAUTH2_VALIDATOR_CLASS": "approvals.oauth.tokens.Validator",
        "SCOPES": SCOPES,
        "AUTHORIZATION_CODE_EXPIRE_SECONDS": CODE_S,
        "ACCESS_TOKEN_EXPIRE_SECONDS": ACCESS_TOKEN_S,
        "REFRESH_TOKEN_EXPIRE_SECONDS": REFRESH_TOKEN_S,
        "ACCESS_TOKEN_GENERATOR": "approvals.oauth.tokens.new_access_token",
        "REFRESH_TOKEN_GENERATOR": "approvals.oauth.tokens.new_refresh_token",
        "ROTATE_REFRESH_TOKEN": True,
        "REFRESH_TOKEN_REUSE_PROTECTION": True,
        # A program of the desktop listens at a port of its choice (RFC 8252, 7.3).
        "ALLOW_LOCALHOST_LOOPBACK": True,
        "CIMD_ENABLED": True,
        "CIMD_METADATA_FETCHER": "approvals.oauth.documents.DocumentFetcher",
        "CIMD_REGISTRATION_PERMISSION_CLASSES": ("approvals.oauth.documents.MayRegister",),
        "CIMD_MAX_CONCURRENT_FETCHES": 2,  # each may hold a thread of the pages for five seconds
        "DCR_ENABLED": registers_clients,
        "DCR_REGISTRATION_PERMISSION_CLASSES": ("approvals.oauth.documents.MayRegister",),
        "OAUTH2_RESPONSE_TYPES_SUPPORTED": ["code"],
        "OAUTH2_GRANT_TYPES_SUPPORTED": [
            "authorization_code",
            "refresh_token",
            "client_credentials",
            JWT_BEARER,
        ],
        # Without ``none`` clients do not send the address of their document as their id.
        "OAUTH2_TOKEN_ENDPOINT_AUTH_METHODS_SUPPORTED": [
            "none",
            "client_secret_basic",
            "client_secret_post",
        ],
        **dict.fromkeys(
            (
                "COMPLIANT_BCP_RFC9700_IMPLICIT_GRANT",
                "COMPLIANT_BCP_RFC9700_PASSWORD_GRANT",
                "COMPLIANT_BCP_RFC9700_PKCE_METHOD",
                "COMPLIANT_BCP_RFC9700_ACCESS_TOKEN_TRANSPORT",
                "COMPLIANT_BCP_RFC9700_AUTHZ_RESPONSE_ISS",
                "COMPLIANT_BCP_RFC9700_TOKEN_STORAGE",
                "COMPLIANT_BCP_RFC9700_REFRESH_TOKEN",
                "COMPLIANT_BCP_RFC9700_REDIRECT_URI_SCHEME",
                "COMPLIANT_BCP_RFC9700_REDIRECT_URI_MATCHING",
                "COMPLIANT_BCP_RFC9700_PKCE_REQUIRED",
            ),
            True,
        ),
    }
