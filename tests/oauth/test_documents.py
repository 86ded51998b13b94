"""Clients known by the document at their address (CIMD), over TLS, and documents that lie."""

from __future__ import annotations

import json
import ssl
import time
from datetime import timedelta
from typing import Any

import pytest
from django.core.cache import cache
from django.db.models.functions import Now
from django.test import Client as Browser

from approvals.oauth import connections
from approvals.oauth.models import Client, Connection
from ledger import limits
from ledger.agents import caller_with
from ledger.foundation.http_out import safe_http
from tests.ledger.test_safe_http import certificate_for, resolving
from tests.oauth.conftest import RETURN_TO, Program, fields_of
from tests.oauth.workloads.conftest import KeyServer, serving

pytestmark = pytest.mark.django_db(transaction=True)
ELSEWHERE = "https://attacker.example/callback"


class Site(KeyServer):
    """The site of a program; it shows ``document`` at each of its addresses."""

    host = "hook.example"

    def address(self, path: str = "client.json") -> str:
        return f"https://{self.host}:{self.server_port}/{path}"

    def show(self, **changes: Any) -> None:
        document = {
            "client_id": self.address(),
            "client_name": "Code Helper",
            "redirect_uris": [RETURN_TO],
            "token_endpoint_auth_method": "none",
            **changes,
        }
        headers = {"Content-Type": "application/json", "Cache-Control": "no-store"}
        self.answer = (200, headers, json.dumps(document).encode())


@pytest.fixture
def site(tmp_path, monkeypatch, settings):
    settings.WEBHOOK_NETWORKS = ["127.0.0.0/8"]
    path = certificate_for(Site.host, tmp_path)
    theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    theirs.load_cert_chain(path)
    ours = ssl.create_default_context(cafile=str(path))
    monkeypatch.setattr(safe_http, "trust", lambda: ours)
    resolving(monkeypatch, ["127.0.0.1"])
    cache.clear()  # addresses that failed lately are not asked
    site = Site()
    site.socket = theirs.wrap_socket(site.socket, server_side=True)
    site.handle_error = lambda *args: None  # a client that hangs up is what we test
    site.show()
    with serving(site):
        yield site


@pytest.fixture
def program(browser_of_vera, site):
    return Program(browser_of_vera, site.address())


def is_unknown(page: Any) -> bool:
    return page.status_code == 400 and not Client.objects.exists()


def its_document_is_old() -> None:
    Client.objects.update(cimd_expires_at=Now() - timedelta(minutes=1))


def test_a_program_is_known_by_its_document(program, site, own_agent):
    tokens = program.signed_in(own_agent)

    row = Client.objects.get()
    assert caller_with(tokens["access_token"], "mcp") is not None
    assert (row.host, row.name) == (site.host, "Code Helper")
    assert f'<b class="host">{site.host}</b>' in program.consent_page().text
    assert site.asked == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"client_id": "https://hook.example/other.json"},
        {"client_id": None},
        {"redirect_uris": ["http://attacker.example/callback"]},
        {"redirect_uris": ["javascript:alert(1)"]},
        {"redirect_uris": ["data:text/html,x"]},
        {"redirect_uris": []},
        {"grant_types": ["client_credentials"]},
        {"grant_types": ["implicit"]},
        {"client_secret": "x"},
        {"client_name": "a\x00b"},
        {"client_name": "x" * 20_000},
    ],
)
def test_a_document_that_is_not_right_makes_no_client(program, site, changes):
    site.show(**changes)

    assert is_unknown(program.consent_page())
    assert site.asked == 1


@pytest.mark.parametrize(
    "answer",
    [
        (302, {"Location": "/client.json"}, b""),
        (404, {}, b"{}"),
        (200, {}, b"[]"),
        (200, {}, b"[" * 10_000),
        (200, {}, b"<html>"),
        (200, {"Content-Encoding": "gzip"}, b"\x1f\x8b"),
    ],
)
def test_what_is_no_document_makes_no_client(program, site, answer):
    site.answer = answer

    assert is_unknown(program.consent_page())
    assert site.asked == 1


def test_a_document_in_our_own_network_is_never_asked_for(program, site, settings):
    settings.WEBHOOK_NETWORKS = []

    assert is_unknown(program.consent_page())
    assert site.asked == 0


@pytest.mark.parametrize("of", ["http://{}/c", "https://u:p@{}/c", "https://{}/a/../c", "//{}/c"])
def test_an_address_of_another_form_is_never_asked(program, site, of):
    page = program.consent_page(client_id=of.format(f"{site.host}:{site.server_port}"))

    assert is_unknown(page)
    assert site.asked == 0


@pytest.mark.slow
def test_a_document_that_hangs_costs_five_seconds_once(program, site, own_agent):
    program.consent_page()
    Client.objects.all().delete()
    site.may_answer.clear()
    began = time.monotonic()

    pages = [program.consent_page() for _ in range(4)]

    assert time.monotonic() - began < 9
    assert all(map(is_unknown, pages))
    assert site.asked == 2


def test_strangers_have_nothing_fetched(program, site):
    stranger, asked = Browser(), program.asked()

    answers = [
        stranger.get("/oauth/authorize", asked),
        stranger.get("/oauth/authorize", {**asked, "prompt": "login"}),
        stranger.get("/oauth/authorize", {**asked, "prompt": "create"}),
        stranger.get("/oauth/authorize", {**asked, "prompt": "none"}),
        stranger.post("/oauth/authorize", asked),
        stranger.post("/oauth/token", {**asked, "grant_type": "authorization_code", "code": "x"}),
        stranger.post("/oauth/token", {**asked, "grant_type": "refresh_token"}),
        stranger.post("/oauth/revoke", {**asked, "token": "x"}),
    ]

    assert [answer.status_code for answer in answers] == [302, 302, 400, 400, 302, 401, 400, 401]
    assert site.asked == 0


@pytest.mark.slow
def test_a_page_that_opens_many_addresses_in_a_persons_browser_has_few_fetched(program, site):
    for number in range(100):
        program.consent_page(client_id=site.address(str(number)))

    assert site.asked < 50
    assert not limits.has_to_wait("127.0.0.1")
    assert not limits.has_to_wait("127.0.0.1", limits.Door.TOKENS)


def test_a_code_goes_where_its_person_was_told_whatever_the_document_says_then(
    program, site, own_agent
):
    code = program.answered(own_agent)["code"]
    site.show(redirect_uris=[ELSEWHERE])
    its_document_is_old()

    stolen = program.exchange(code, redirect_uri=ELSEWHERE)

    assert stolen.status_code == 400
    assert site.asked == 1
    assert program.exchange(code).status_code == 200


def test_a_click_after_the_document_took_the_address_back_connects_nothing(
    program, site, own_agent
):
    opened = fields_of(program.consent_page())
    site.show(redirect_uris=[ELSEWHERE])
    its_document_is_old()
    program.consent_page(redirect_uri=ELSEWHERE)

    answer = program.click(opened, own_agent)

    assert answer.status_code == 400
    assert not Connection.objects.exists()


def test_one_that_was_switched_off_stays_so_whatever_its_document_says(program, site):
    program.consent_page()
    Client.objects.update(is_active=False, created=Now() - timedelta(days=2))
    its_document_is_old()

    connections.forget_expired()

    assert program.consent_page().status_code == 400
    assert not Client.objects.get().is_active


def test_one_that_nobody_connected_is_forgotten_after_a_day(program, site):
    program.consent_page()
    Client.objects.update(created=Now() - timedelta(days=2))

    connections.forget_expired()

    assert not Client.objects.exists()
