"""The whole product as processes, and browsers in front of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import httpx
import pytest
from django.db import connections
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from ledger.models import Agent, AgentToken
from tests.conftest import CHROMIUM
from tests.processes import Product, running

# For whatever must happen on a page. Playwright's own five seconds pass on a busy machine.
WAIT_MS = 30_000


@pytest.fixture
def product(acme: Any, request: pytest.FixtureRequest) -> Iterator[Product]:
    is_split = request.node.get_closest_marker("live_apart") is not None
    names = ("sandbox", "web", *(["live"] if is_split else []), "worker", "sweeper")
    with running(*names) as product:
        os.environ["ASSENT_SANDBOX_URL"] = product.sandbox_url
        yield product
        del os.environ["ASSENT_SANDBOX_URL"]


@pytest.fixture
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        # While Playwright's event loop runs in this thread, Django has other connections here than
        # before; those of an earlier test may have been ended since.
        connections.close_all()
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu", "--disable-quic"]
        )
        expect.set_options(timeout=WAIT_MS)
        yield browser
        browser.close()
        connections.close_all()


@pytest.fixture
def desk_of(product: Product, browser: Browser) -> Iterator[Callable[..., Page]]:
    """Signs a person in; a complaint of the page (CSP, script error) fails the test."""
    complaints: list[str] = []
    contexts: list[BrowserContext] = []

    def sign_in(username: str, **options: Any) -> Page:
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(WAIT_MS)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on(
            "console",
            lambda message: (
                complaints.append(message.text)
                if "Content Security Policy" in message.text
                else None
            ),
        )
        page.goto(f"{product.url}/sign-in/")
        page.fill("[name=username]", username)
        page.fill("[name=password]", username)
        page.click("button.primary")
        expect(page.locator("[data-live]")).to_have_text("Live")
        return page

    yield sign_in
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.fixture
def token(helpdesk: Agent) -> str:
    return AgentToken.issue(helpdesk, scopes=["propose"])[1]


@pytest.fixture
def ask(product: Product, token: str) -> Callable[..., dict[str, Any]]:
    """An agent proposes a refund, or something else."""

    def ask(tool: str = "refund_customer", **body: Any) -> dict[str, Any]:
        arguments = body.pop("arguments", None) or {
            "payment_id": "pay_1042",
            "amount": "48.20",
            "reason": uuid4().hex,
        }
        answer = httpx.post(
            f"{product.url}/api/v1/transactions",
            json={"tool": tool, "arguments": arguments, **body},
            headers={"Authorization": f"Bearer {token}", "Idempotency-Key": uuid4().hex},
            timeout=30,
        )
        assert answer.status_code == 201, answer.text
        return dict(answer.json())

    return ask
