"""The tool of docs/tool-authors.md is complete: it runs as it stands there."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import httpx
import pytest
from django.conf import settings

from examples.sandbox.server import Sandbox
from ledger.contracts import Context, Tool, registry
from ledger.tools.checks import unsafe

REFUND = {"payment_id": "pay_1042", "amount": "48.20", "currency": "EUR", "reason": "damaged"}


@pytest.fixture
def documented(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tool[Any, Any]]:
    monkeypatch.setattr(registry, "tools", {})
    page = (settings.BASE_DIR / "docs/tool-authors.md").read_text()
    code = page.partition("```python\n")[2].partition("```")[0]
    namespace: dict[str, Any] = {}
    exec(code.replace("http://127.0.0.1:8002", sandbox.url), namespace)
    yield namespace["refund_payment"]
    namespace["provider"].close()


def test_the_documented_tool_is_planned_carried_out_once_found_and_compensated(
    documented: Tool[Any, Any], http: httpx.Client
) -> None:
    arguments = documented.validate(REFUND)
    key = documented.operation_key_for("acme", REFUND)
    context = Context(uuid4(), "acme", key, timeout=timedelta(seconds=3))

    assert list(unsafe(documented)) == []
    assert documented.make_plan(arguments, context).summary == "Refund 48.20 EUR to Ana Ruiz"
    assert documented.run("find_receipt", arguments, context) is None
    result = documented.run("execute", arguments, context)
    assert documented.run("execute", arguments, context) == result
    assert documented.run("find_receipt", arguments, context) == result
    context = Context(
        uuid4(), "acme", key, timeout=timedelta(seconds=3), receipt=result["refund_id"]
    )
    assert documented.run("compensate", arguments, context).startswith("rev_")
    assert http.get("/effects").json()["by_kind"] == {"refund": 1, "reversal": 1}
