"""axe-core finds nothing on pages that no address alone leads to: answers to forms, and errors."""

from __future__ import annotations

import re
import time
from urllib.parse import urlsplit

import pytest
from django.contrib.auth.models import User
from django.template.loader import render_to_string

from approvals.models import LinkPurpose
from approvals.people.sign_in import links, second_steps
from tests.accessibility.axe import violations

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.timeout(300),
]


def assert_clean(page):
    found = violations(page)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("action", ["Rotate…", "Revoke…"])
def test_the_question_before_tokens_end(action, scene, product, page_of):
    page = page_of("operator")
    page.goto(f"{product.url}/agents/")
    page.locator(".offers li", has_text=re.compile("[1-9] tokens?")).first.locator("a").click()
    page.get_by_role("button", name=action).first.click()
    page.wait_for_selector("dialog[open]")

    assert_clean(page)


def test_a_token_that_was_just_issued(scene, product, page_of):
    page = page_of("operator")
    page.goto(f"{product.url}/agents/")
    page.locator(".offers a").first.click()
    page.get_by_text("Issue a token").first.click()
    page.get_by_role("button", name="Issue a token").click()
    page.wait_for_selector("pre[data-copy]")

    assert_clean(page)


@pytest.mark.parametrize(
    ("who", "path", "status"),
    [
        ("viewer", "/people/", 403),
        ("approver", "/nowhere/", 404),
        ("anonymous", "/nowhere/", 404),
    ],
)
def test_what_is_not_for_somebody_or_not_there(who, path, status, scene, product, page_of):
    page = page_of(who)

    assert page.goto(product.url + path).status == status
    assert_clean(page)


@pytest.mark.parametrize(
    ("template", "context"),
    [("500.html", {}), ("503.html", {"is_certain": True}), ("503.html", {"is_certain": False})],
)
def test_what_failed(template, context, scene, product, page_of):
    page, written = page_of("anonymous"), render_to_string(template, context)
    page.route("**/failed", lambda route: route.fulfill(body=written, content_type="text/html"))
    page.goto(f"{product.url}/failed")

    assert page.locator("h1").is_visible()
    assert_clean(page)


@pytest.mark.parametrize("path", ["", "queues/0/", "workers/0/"])
def test_the_pages_of_the_queues(path, scene, product, page_of):
    page = page_of("superuser")

    assert page.goto(f"{product.url}/admin/rq/{path}").status == 200
    assert_clean(page)


@pytest.fixture(scope="module")
def person_with_app(scene, django_db_blocker):
    """The name of somebody whose password is not enough; committed, for the processes to see."""
    with django_db_blocker.unblock():
        person = User.objects.create_user("stepper", password="a long enough password")
        secret = second_steps.new_secret()
        code = second_steps.code_at(secret, int(time.time()) // 30)
        assert second_steps.add_app(person, secret, code)
        return person.username


@pytest.fixture(scope="module")
def first_start(scene, django_db_blocker):
    """The path of an open link to the first account."""
    with django_db_blocker.unblock():
        return urlsplit(links.new_link(LinkPurpose.FIRST, None)).path


def test_the_step_of_a_code_when_signing_in(person_with_app, product, browser):
    page = browser.new_page(reduced_motion="reduce")
    page.goto(f"{product.url}/sign-in/")
    page.fill("[name=username]", person_with_app)
    page.fill("[name=password]", "a long enough password")
    page.click("button.primary")
    page.wait_for_url("**/sign-in/code/**")
    assert_clean(page)

    page.fill("[name=code]", "000000")
    page.click("button.primary")
    page.wait_for_selector("[role=alert]")
    assert_clean(page)
    page.close()


def test_the_first_start(first_start, product, browser):
    page = browser.new_page(reduced_motion="reduce")
    page.goto(product.url + first_start)
    page.wait_for_selector("[name=organisation]")

    assert_clean(page)
    page.close()
