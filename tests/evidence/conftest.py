"""A tool whose plan carries whatever evidence a test gives it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from ledger import contracts
from ledger.contracts.evidence import Difference, Evidence, File, Table, Text
from ledger.models import Transaction
from tests.conftest import propose
from tests.evidence.files import PDF, png

EACH_KIND: tuple[Evidence, ...] = (
    Text("Letter", "Dear all,\nplease pay."),
    Table("Lines", ["item", "price"], [["Lamp", "48.20"], ["Postage", 5]]),
    Difference("Contract", "Section 1\nTwo years.\n", "Section 1\nThree years.\n"),
    File("photo.png", "image/png", png()),
    File("invoice.pdf", "application/pdf", PDF),
)
_numbers = count(1)


def filing_tool(plans: dict[str, tuple[Evidence, ...]], **terms: Any) -> contracts.Tool[Any, Any]:
    """A tool whose plan for a title has the evidence of that title."""

    def file(title: str) -> dict[str, str]:
        return {"receipt_id": f"filed-{title}"}

    contract = replace(
        contracts.tools["pay"].contract,
        operation_key="file:{tenant}:{title}",
        compensation="",
        subject="",
        **terms,
    )
    tool = contracts.Tool(file, contract)

    @tool.plan
    def plan(title: str) -> contracts.Plan:
        return contracts.Plan(f"File {title}", evidence=plans[title])

    return tool


@pytest.fixture
def file_it(acme: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Transaction]:
    """Proposes something with this evidence."""

    def make(*pieces: Evidence, **terms: Any) -> Transaction:
        title = f"case {next(_numbers)}"
        monkeypatch.setitem(contracts.tools, "file", filing_tool({title: pieces}, **terms))
        return propose("file", title=title)

    return make
