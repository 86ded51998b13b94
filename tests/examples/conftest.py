from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from examples.sandbox.server import Sandbox


@pytest.fixture(scope="module")
def _sandbox() -> Iterator[Sandbox]:
    sandbox = Sandbox().in_background()
    yield sandbox
    sandbox.stop()


@pytest.fixture
def sandbox(_sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    """The outside world, in which nothing has happened yet."""
    httpx.post(f"{_sandbox.url}/reset").raise_for_status()
    monkeypatch.setenv("ASSENT_SANDBOX_URL", _sandbox.url)
    return _sandbox


@pytest.fixture
def http(sandbox: Sandbox) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=sandbox.url, timeout=5, trust_env=False) as client:
        yield client
