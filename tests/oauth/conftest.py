"""A program that signs in as MCP clients do, and a person in front of the consent page."""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.test import Client as Browser

from approvals.oauth.models import Client
from approvals.people import principal_of

RETURN_TO = "http://localhost:7777/callback"
SCOPES = "propose submit"


class Program:
    """A public client with PKCE."""

    def __init__(self, browser: Browser, client_id: str = "code-helper") -> None:
        self.browser, self._stranger = browser, Browser()
        self.client_id = client_id
        self.verifier = secrets.token_urlsafe(48)

    def asked(self, **changes: Any) -> dict[str, Any]:
        """What the program puts into the address of the consent page; ``None`` leaves it out."""
        digest = hashlib.sha256(self.verifier.encode()).digest()
        asked = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": RETURN_TO,
            "scope": SCOPES,
            "state": "as-it-was",
            "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
            "resource": "http://localhost:8000/mcp",
            **changes,
        }
        return {name: value for name, value in asked.items() if value is not None}

    def consent_page(self, **changes: Any) -> Any:
        return self.browser.get("/oauth/authorize", self.asked(**changes))

    def answered(self, agent: str, *, allow: bool = True, **changes: Any) -> dict[str, str]:
        """What the program is told once the person has clicked."""
        answer = self.click(fields_of(self.consent_page(**changes)), agent, allow=allow)
        assert answer.status_code == 302, answer.content
        assert answer["Location"].startswith(RETURN_TO)
        return told(answer)

    def click(self, fields: dict[str, str], agent: str, *, allow: bool = True) -> Any:
        clicked = {"allow": "true"} if allow else {}
        return self.browser.post("/oauth/authorize", {**fields, "agent": agent, **clicked})

    def exchange(self, code: str, **changes: Any) -> Any:
        body = {
            "grant_type": "authorization_code",
            "code": code,
            "client_id": self.client_id,
            "redirect_uri": RETURN_TO,
            "code_verifier": self.verifier,
            **changes,
        }
        return self._stranger.post("/oauth/token", body)

    def signed_in(self, agent: str) -> dict[str, Any]:
        """The tokens of a sign-in that was allowed."""
        answer = self.exchange(self.answered(agent)["code"])
        assert answer.status_code == 200, answer.content
        tokens: dict[str, Any] = answer.json()
        return tokens

    def refresh(self, tokens: dict[str, Any], **changes: Any) -> Any:
        body = {
            "grant_type": "refresh_token",
            "refresh_token": tokens["refresh_token"],
            "client_id": self.client_id,
            **changes,
        }
        return self._stranger.post("/oauth/token", body)


def fields_of(page: Any) -> dict[str, str]:
    """What the consent page sends along when its person clicks."""
    return dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', page.text))


def registered(browser: Browser, client_id: str) -> Program:
    """A program that operators registered."""
    Client.objects.get_or_create(
        client_id=client_id,
        defaults={
            "name": client_id.replace("-", " ").title(),
            "redirect_uris": RETURN_TO,
            "client_type": Client.CLIENT_PUBLIC,
            "authorization_grant_type": Client.GRANT_AUTHORIZATION_CODE,
            "client_secret": "",
        },
    )
    return Program(browser, client_id)


def told(answer: Any) -> dict[str, str]:
    """The query of a redirect."""
    return {
        name: values[0] for name, values in parse_qs(urlsplit(answer["Location"]).query).items()
    }


@pytest.fixture
def own_agent(helpdesk, vera_user):
    """An agent that the person keeps, by the name under which the page offers it."""
    helpdesk.kept_by = str(principal_of(vera_user))
    helpdesk.save()
    return f"agent:{helpdesk.pk}"


@pytest.fixture
def browser_of_vera(vera_user):
    browser = Browser()
    browser.force_login(vera_user)
    return browser


@pytest.fixture
def program(browser_of_vera):
    return registered(browser_of_vera, "code-helper")


@pytest.fixture
def other_program(browser_of_vera):
    return registered(browser_of_vera, "other")
