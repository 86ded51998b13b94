"""Unmodified MCP clients sign in: from the address alone to the first proposal."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.conf import settings
from django.test import Client as Browser

from approvals.oauth.models import Client, Connection
from ledger.models import Transaction
from tests.peers import PEERS, installed, javascript_client, python_client
from tests.processes import Product, running, until

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.slow,
    pytest.mark.timeout(900),  # the first test of each installs its packages
]


@pytest.fixture
def product(acme) -> Iterator[Product]:
    with running("web", "live", ASSENT_OAUTH_REGISTRATION="1") as product:
        yield product


class Person:
    """Somebody who is signed in, in a browser without scripts."""

    def __init__(self, http: httpx.Client) -> None:
        self._http = http

    def connects(self, url: str, agent: str) -> str:
        """Press Connect at this address; where the browser is sent then."""
        page = self._http.get(url)
        assert page.status_code == 200, page.text[-3000:]
        fields = {
            name: unescape(value)
            for name, value in re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', page.text)
        }
        body = {**fields, "agent": agent, "allow": "true"}
        answer = self._http.post("/oauth/authorize", data=body, headers={"Referer": url})
        assert answer.status_code == 302, answer.text[-3000:]
        location: str = answer.headers["location"]
        return location


@pytest.fixture
def person(product, vera_user):
    browser = Browser()
    browser.force_login(vera_user)
    cookies = {settings.SESSION_COOKIE_NAME: browser.cookies[settings.SESSION_COOKIE_NAME].value}
    with httpx.Client(base_url=product.url, cookies=cookies, timeout=30) as http:
        yield Person(http)


@pytest.fixture
def browser(tmp_path) -> tuple[Path, dict[str, str]]:
    """A browser that notes where it was sent; and the environment that names it."""
    noted, script = tmp_path / "address", tmp_path / "browser"
    script.write_text(f'#!/bin/sh\nprintf "%s\\n" "$1" >> {noted}\n')
    script.chmod(0o755)
    noted.touch()
    return noted, {**os.environ, "BROWSER": f"{script} %s", "HOME": str(tmp_path)}


def address_of(product: Product) -> str:
    return f"{product.environment['ASSENT_LIVE_URL']}/mcp"


def said_by(command: list[str], connect: Any) -> list[dict[str, Any]]:
    """All that a client says; when it shows an address, its person connects it there."""
    said: list[dict[str, Any]] = []
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as client:
        for line in client.stdout:
            said.append(json.loads(line))
            if said[-1]["seen"] == "authorize":
                client.stdin.write(connect(said[-1]["url"]) + "\n")
                client.stdin.flush()
        assert client.wait() == 0, client.stderr.read()[-3000:]
    return said


@pytest.mark.parametrize("kind", ["registered", "dynamic"])
def test_the_sdk_of_typescript_signs_in_and_proposes(product, person, own_agent, program, kind):
    client = javascript_client("mcp_sign_in", "@modelcontextprotocol/client", "sign_in.mjs")

    said = said_by(
        [*client, address_of(product), kind, "code-helper"],
        lambda url: person.connects(url, own_agent),
    )

    row = Transaction.objects.get()
    assert [each["seen"] for each in said] == ["authorize", "pending"]
    assert (said[1]["id"], row.proposed_by) == (str(row.pk), "agent:acme/helpdesk")


def test_mcp_remote_registers_itself_and_lists_the_tools(product, person, own_agent, browser):
    _, environment = browser
    folder = installed("mcp_sign_in", "mcp-remote")
    script = str(folder / "node_modules" / "mcp-remote" / "dist" / "client.js")
    command = [*javascript_client("mcp_sign_in", "mcp-remote", script), address_of(product)]
    said = ""
    with subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.PIPE,  # it ends with its input
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as client:
        for line in client.stdout:
            said += line
            if url := re.search(r"https?://\S+/oauth/authorize\?\S+", line):
                httpx.get(person.connects(url[0], own_agent))
            if '"assent_wait"' in line:
                client.terminate()

    assert '"pay"' in said, said[-3000:]
    assert Connection.objects.get().agent.slug == "helpdesk"


def test_fastmcp_registers_itself_and_signs_in(product, person, own_agent, browser):
    noted, environment = browser
    script = str(PEERS / "mcp_python" / "sign_in.py")
    command = [*python_client("mcp_python")[:-1], script, address_of(product), "fastmcp", ""]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as client:
        url = until(lambda: noted.read_text().strip(), 60, "FastMCP opened no browser")
        httpx.get(person.connects(url, own_agent))
        said = json.loads(client.stdout.readline())
        assert client.wait() == 0

    assert said == {"seen": "pending", "id": str(Transaction.objects.get().pk)}


@pytest.mark.parametrize("kind", ["registered", "dynamic"])
def test_the_sdk_of_python_signs_in_and_proposes(product, person, own_agent, program, kind):
    script = str(PEERS / "mcp_python" / "sign_in.py")
    command = [*python_client("mcp_python")[:-1], script, address_of(product), kind, "code-helper"]

    said = said_by(command, lambda url: person.connects(url, own_agent))

    row = Transaction.objects.get()
    assert [each["seen"] for each in said] == ["authorize", "pending", "refreshed"]
    assert said[1]["id"] == str(row.pk)
    assert row.proposed_by == "agent:acme/helpdesk"
    assert Connection.objects.get().client.registration_source == (
        Client.RegistrationSource.MANUAL if kind == "registered" else Client.RegistrationSource.DCR
    )
