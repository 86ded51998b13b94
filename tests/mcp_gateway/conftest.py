"""A server on loopback that acme has registered, and people who release its tools."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from django.core.management import call_command

from ledger.models import McpUpstream, Tenant, Transaction, UpstreamTool
from ledger.transactions import coordinator
from tests.conftest import propose
from tests.mcp_gateway.upstreams import Scripted, scripted
from tests.peers import PEERS, python_with
from tests.processes import free_port

PEER = PEERS / "mcp_python"


@pytest.fixture(autouse=True)
def _loopback(settings: Any) -> None:
    settings.WEBHOOK_NETWORKS = ["127.0.0.0/8"]


def gateway(verb: str, *arguments: str, tenant: str = "acme", **options: Any) -> str:
    """What ``manage.py mcp_upstream`` says."""
    out = StringIO()
    call_command("mcp_upstream", verb, *arguments, tenant=tenant, stdout=out, **options)
    return out.getvalue()


@pytest.fixture
def upstream() -> Iterator[Scripted]:
    with scripted() as server:
        yield server


@pytest.fixture
def billing(upstream: Scripted, acme: Tenant) -> Scripted:
    """Registered, with its tool released on the strictest terms."""
    gateway("add", "billing", upstream.address)
    gateway("release", "billing", "refund")
    return upstream


@pytest.fixture
def signed_off(alice: Any) -> Callable[..., Transaction]:
    def make(name: str = "billing_refund", **arguments: Any) -> Transaction:
        if name == "billing_refund":
            arguments = {"invoice": "7", "amount": 48.2, **arguments}
        row = propose(name, **arguments)
        coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web")
        return row

    return make


def read_again(name: str = "billing") -> McpUpstream:
    """What the sweeper has done every five minutes."""
    row = McpUpstream.objects.get(name=name)
    gateway("sync", name)
    row.refresh_from_db()
    return row


class Sdk:
    """A process of the unmodified SDK's server."""

    def __init__(self, folder: Path, era: str) -> None:
        self.file, self.port, self.era = folder / "invoices.jsonl", free_port(), era
        self.start()

    def start(self, **environment: str) -> None:
        """With ``dies`` it ends after its first effect."""
        python = python_with("mcp_python", PEER / "requirements.txt")
        command = [str(python), "-I", str(PEER / "server.py"), str(self.port), str(self.file)]
        named = {name.upper(): value for name, value in environment.items()}
        self.process = subprocess.Popen([*command, self.era], env=os.environ | named)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                httpx.get(self.address)
            except httpx.TransportError:
                assert self.process.poll() is None
            else:
                return
        raise TimeoutError("the SDK's server does not answer")

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def sdk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Sdk]:
    server = Sdk(tmp_path, request.param)
    yield server
    server.stop()


@pytest.fixture
def apply(acme: Tenant, tmp_path: Path) -> Callable[..., None]:
    """Releases a tool as an operator does who has its manifest printed, and changes it."""

    def run(upstream: str, tool: str, *, find: Any = None, **changes: Any) -> None:
        whole = yaml.safe_load(gateway("show", upstream, tool))
        manifest = whole["tools"][0]
        manifest["contract"] |= changes.pop("contract", {})
        manifest |= changes
        if find is not None:
            sha256 = UpstreamTool.objects.get(name=find["tool"]).sha256
            manifest["find_receipt"] = {**find, "sha256": sha256}
        file = tmp_path / "tools.yaml"
        file.write_text(yaml.safe_dump(whole))
        call_command("tools", "apply", str(file), stdout=StringIO())

    return run
