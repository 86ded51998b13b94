"""One set of rows, one server and one browser for all pages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.conf import settings
from django.db import connection, connections
from playwright.sync_api import Browser, Page, sync_playwright

from tests.authorization.operations import address_of, all_operations
from tests.authorization.scene import PEOPLE, Scene
from tests.conftest import CHROMIUM
from tests.processes import Product, running
from tests.tables import empty_the_tables


@pytest.fixture(scope="module")
def scene(django_db_setup: None, django_db_blocker: Any) -> Iterator[Scene]:
    """Rows in every state, committed, so that the processes see them; emptied at the end."""
    with django_db_blocker.unblock():
        try:
            scene = Scene()
            for name in PEOPLE:
                scene.person(name)  # signed in here, where it is committed
            yield scene
        finally:
            empty_the_tables()
            connection.close()


@pytest.fixture(scope="module")
def addresses(scene: Scene) -> dict[str, str]:
    """The address of each operation; read here, as no test may be in a transaction for so long."""
    return {operation: address_of(operation, scene) for operation in all_operations()}


@pytest.fixture(scope="module")
def product(scene: Scene) -> Iterator[Product]:
    with running("web") as product:
        yield product


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        connections.close_all()
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu", "--disable-quic"]
        )
        yield browser
        browser.close()
        connections.close_all()


@pytest.fixture(scope="module")
def page_of(product: Product, scene: Scene, browser: Browser) -> Iterator[Callable[[str], Page]]:
    """The page of a person of the scene, who is signed in; of nobody for ``anonymous``."""
    pages: dict[str, Page] = {}

    def page_of(who: str) -> Page:
        if who not in pages:
            context = browser.new_context(reduced_motion="reduce", locale="en-GB")
            if who != "anonymous":
                cookie = scene.person(who).cookies[settings.SESSION_COOKIE_NAME]
                context.add_cookies(
                    [{"name": cookie.key, "value": cookie.value, "url": product.url}]
                )
            pages[who] = context.new_page()
        return pages[who]

    yield page_of
    for page in pages.values():
        page.context.close()
