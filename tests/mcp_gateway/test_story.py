"""The unmodified SDK's server, of both eras, behind the desk."""

from __future__ import annotations

import json

import pytest

from ledger import execution
from ledger.errors import UnknownTool
from ledger.models import AgentToken, McpUpstream, Reading, Scope
from ledger.states import Reasons
from tests.conftest import propose
from tests.mcp.wire import call, result_of, say
from tests.mcp_gateway.conftest import gateway

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.slow,
    pytest.mark.timeout(600),  # the first test installs the SDK
]
ERAS = pytest.mark.parametrize("sdk", ["2026-07-28", "legacy"], indirect=True)


@ERAS
def test_a_tool_of_a_server_is_released_proposed_signed_and_carried_out_once(sdk, acme, signed_off):
    told = gateway("add", "invoices", sdk.address)
    assert "refund_invoice: waits for an operator." in told
    with pytest.raises(UnknownTool):
        propose("invoices_refund_invoice", invoice="7", amount=5)

    gateway("release", "invoices", "refund_invoice")
    row = signed_off("invoices_refund_invoice", invoice="7", amount=48.2)
    assert not sdk.file.exists()

    execution.commit(row.pk)
    execution.commit(row.pk)

    row.refresh_from_db()
    assert (row.state, row.receipt) == ("committed", "re_1"), row.error_detail
    (done,) = map(json.loads, sdk.file.read_text().splitlines())
    assert done["key"] == row.operation_key
    assert done["invoice"] == "7"
    spoken = McpUpstream.objects.get().revision
    assert spoken == ("2026-07-28" if "2026-07-28" in told else "2025-11-25")


@ERAS
def test_a_tool_without_effects_runs_at_once_and_is_recorded(sdk, as_helpdesk, acme):
    gateway("add", "invoices", sdk.address)
    gateway("release", "invoices", "read_invoice", read_only=True)

    answer = as_helpdesk.post("/tools/invoices_read_invoice/call", {"arguments": {"invoice": "7"}})

    assert answer.status_code == 200, answer.json()
    assert answer.json()["result"] == {"invoice": "7", "refunds": 0}
    assert Reading.objects.get().tool == "invoices_read_invoice"


@ERAS
def test_an_error_of_the_tool_is_in_doubt(sdk, acme, signed_off):
    gateway("add", "invoices", sdk.address)
    gateway("release", "invoices", "fail")
    row = signed_off("invoices_fail", invoice="7")

    execution.commit(row.pk)

    row.refresh_from_db()
    assert row.state == "in_doubt"
    assert row.error_detail == "Error executing tool fail"
    assert row.error_source["code"] == Reasons.TOOL_SAID.code


@ERAS
def test_an_mcp_client_finds_the_tools_of_another_server_behind_ours(sdk, acme, helpdesk):
    gateway("add", "invoices", sdk.address)
    gateway("release", "invoices", "read_invoice", read_only=True)
    gateway("release", "invoices", "refund_invoice")
    token = AgentToken.issue(helpdesk, scopes=[Scope.PROPOSE])[1]

    listed = {tool["name"]: tool for tool in result_of(say(token, "tools/list"))["tools"]}
    read = call(token, "invoices_read_invoice", {"invoice": "7"})
    asked = call(token, "invoices_refund_invoice", {"invoice": "7", "amount": 5})

    assert listed["invoices_read_invoice"]["annotations"]["readOnlyHint"] is True
    assert listed["invoices_refund_invoice"]["annotations"]["readOnlyHint"] is False
    assert read["structuredContent"]["result"] == {"invoice": "7", "refunds": 0}
    assert asked["structuredContent"]["status"] == "pending"
    assert not sdk.file.exists()
