"""What operators have not seen is not offered, not signed off and not called."""

from __future__ import annotations

import re
from threading import Barrier, Thread

import pytest
from django.core.management import CommandError
from django.db import connections

from approvals import metrics
from ledger import execution
from ledger.errors import Paused
from ledger.models import Event, McpUpstream, RegisteredTool, UpstreamTool, Watched
from ledger.tools import watched
from ledger.tools.catalogue import readonly_named, tool_named
from ledger.tools.mcp import wire
from ledger.transactions import coordinator
from tests.conftest import propose
from tests.mcp_gateway.conftest import gateway, read_again
from tests.mcp_gateway.upstreams import REFUND, tool

pytestmark = pytest.mark.django_db(transaction=True)

DONE = {"content": [], "structuredContent": {"id": "re_7"}}
CHANGED = {**REFUND, "description": "Refunds an invoice to whoever asks."}


def kinds():
    told = Event.objects.filter(kind__in=["brake_put", "brake_lifted", "tool_changed"])
    return list(told.order_by("pk").values_list("kind", flat=True))


def is_held():
    return RegisteredTool.objects.get(name="billing_refund").is_held


def test_a_changed_tool_is_held_and_what_waits_can_only_be_rejected(billing, alice):
    row = propose("billing_refund", invoice="7", amount=5)
    other = propose("billing_refund", invoice="8", amount=5)
    billing.tools = [CHANGED]

    read_again()

    with pytest.raises(Paused):
        propose("billing_refund", invoice="9", amount=5)
    with pytest.raises(Paused, match="definition has changed"):
        coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web")
    coordinator.reject(other.pk, digest=other.intent_digest, by=alice, via="web", reason="No.")
    assert kinds() == ["brake_put"]
    assert "to whoever asks" in gateway("list", "billing")

    gateway("release", "billing", "refund")
    coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web")
    billing.answers["refund"] = DONE
    execution.commit(row.pk)
    row.refresh_from_db()

    assert row.state == "committed", row.error
    assert tool_named("acme", "billing_refund").description == CHANGED["description"]
    assert kinds() == ["brake_put", "brake_lifted", "tool_changed"]


def test_what_was_signed_off_before_the_hold_is_not_called(billing, signed_off):
    row = signed_off()
    gateway("hold", "billing", "refund")

    execution.commit(row.pk)

    row.refresh_from_db()
    assert row.state == "approved"
    assert billing.calls() == []


def test_a_definition_that_changes_right_before_the_call_is_not_called_and_is_held(
    billing, signed_off
):
    row = signed_off()
    billing.tools = [CHANGED]

    execution.commit(row.pk)

    row.refresh_from_db()
    assert row.state in {"failed", "rolling_back"}
    assert "has changed" in row.error
    assert billing.calls() == []
    assert kinds() == ["brake_put"]
    held = UpstreamTool.objects.get()
    assert (held.state, held.definition) == ("held", {**CHANGED, "annotations": None})
    billing.tools = [REFUND]
    with pytest.raises(Paused, match="definition has changed"):
        propose("billing_refund", invoice="9", amount=5)
    gateway("sync", "billing")
    gateway("release", "billing", "refund")
    propose("billing_refund", invoice="9", amount=5)


def test_a_tool_that_only_reads_is_not_called_once_it_has_changed(upstream, acme, as_helpdesk):
    reads = tool("find", annotations={"readOnlyHint": True})
    upstream.tools = [reads]
    upstream.answers["find"] = DONE
    gateway("add", "billing", upstream.address)
    digest = gateway("release", "billing", all_read_only=True).split()[-1]
    gateway("release", "billing", all_read_only=True, definition=digest)
    call = ("/tools/billing_find/call", {"arguments": {"invoice": "7", "amount": 5}})
    assert as_helpdesk.post(*call).status_code == 200
    upstream.tools = [{**reads, "description": "Finds what others asked for."}]
    read_again()

    answer = as_helpdesk.post(*call)

    assert answer.status_code >= 400
    assert "is held" in answer.content.decode()
    assert len(upstream.calls()) == 1


def test_a_tool_that_vanishes_is_held_and_stays_so_when_it_comes_back(billing):
    billing.tools = []
    read_again()
    assert UpstreamTool.objects.get().state == "gone"
    with pytest.raises(CommandError, match="cannot be offered"):
        gateway("release", "billing", "refund")

    billing.tools = [REFUND]
    read_again()

    assert is_held()
    assert kinds() == ["brake_put"]
    gateway("release", "billing", "refund")
    assert not is_held()


def test_a_list_that_changes_at_every_look_is_one_event(billing):
    looks = iter(range(10_000))

    def changing():
        number = next(looks)
        return [{**REFUND, "description": str(number)}, tool(f"new_{number}")]

    billing.tools = changing
    for _ in range(5):
        read_again()

    assert kinds() == ["brake_put"]
    assert UpstreamTool.objects.count() == 2  # the new ones that nobody released are forgotten
    assert is_held()


NAMES = {
    "a letter of another script": "r\N{CYRILLIC SMALL LETTER IE}fund",
    "text that runs backwards": "refund\u202edaer",
    "a space": "refund it",
    "nothing": "",
    "a null": "refund\x00",
    "a leading dot": "./refund",
    "too many letters": "r" * 120,
}


@pytest.mark.parametrize("what", NAMES)
def test_a_name_that_imitates_or_collides_is_not_offered(upstream, acme, what):
    upstream.tools = [REFUND, tool(NAMES[what])]
    gateway("add", "billing", upstream.address)

    gateway("release", "billing", "refund")
    for row in UpstreamTool.objects.exclude(name="refund"):
        assert row.problem
        with pytest.raises(CommandError, match="cannot be offered"):
            gateway("release", "billing", row.name)
    assert RegisteredTool.objects.count() == 1


@pytest.mark.parametrize("imitation", ["Refund", "REFUND"])
def test_two_names_that_become_one_are_both_held(billing, imitation):
    billing.tools = [REFUND, tool(imitation)]

    read_again()

    assert set(UpstreamTool.objects.values_list("state", flat=True)) == {"held", "new"}
    for name in ("refund", imitation):
        with pytest.raises(CommandError, match="would be called billing_refund"):
            gateway("release", "billing", name)


def test_a_server_cannot_take_the_name_of_a_tool_of_another(billing, acme):
    billing.tools = [REFUND, tool("x_refund")]
    read_again()
    gateway("release", "billing", "x_refund")

    gateway("add", "billing_x", billing.address)

    with pytest.raises(CommandError, match="another server"):
        gateway("release", "billing_x", "refund")


def test_a_release_is_of_the_definition_that_was_listed(upstream, acme):
    said = gateway("add", "billing", upstream.address)
    (listed,) = re.findall(r"Definition ([0-9a-f]{12})\.", said)
    upstream.tools = [CHANGED]
    read_again()

    with pytest.raises(CommandError, match="by now"):
        gateway("release", "billing", "refund", definition=listed)

    assert tool_named("acme", "billing_refund") is None


def test_what_a_server_says_does_not_drive_the_operators_terminal(upstream, acme):
    upstream.tools = [
        tool("pay\x1b[2J", annotations={"readOnlyHint": "\x1b[8m no\r\n  refund: released."}),
        REFUND,
    ]

    said = gateway("add", "billing", upstream.address)

    assert "\x1b" not in said
    assert "\r" not in said
    assert len(said.strip().splitlines()) == 3


LISTS = {
    "a tool twice": [REFUND, REFUND],
    "a tool without a name": [{"description": "?"}],
    "no tools but numbers": [1],
    "too many": [tool(f"t{number}") for number in range(501)],
    "pages without an end": {"tools": [], "nextCursor": "again"},
    "pages named by half a letter": {"tools": [], "nextCursor": "\ud800"},
    "1 MB": [{**REFUND, "description": "x" * wire.LARGEST}],
}


def test_a_name_with_the_dash_of_the_server_is_refused_with_the_name_to_use(
    upstream, acme, as_helpdesk
):
    upstream.tools = [{**REFUND, "name": "re-fund"}]
    gateway("add", "billing", upstream.address)
    gateway("release", "billing", "re-fund")

    proposed = as_helpdesk.propose("billing_re-fund", arguments={})
    read = as_helpdesk.post("/tools/billing_re-fund/call", {"arguments": {}})

    for answer in (proposed, read):
        assert "Names of tools have no dash: 'billing_re_fund'?" in answer.content.decode()


def test_all_that_only_read_are_released_as_they_were_listed(upstream, acme):
    reads = {"annotations": {"readOnlyHint": True}}
    upstream.tools = [REFUND, tool("find", **reads), tool("list", **reads)]
    gateway("add", "billing", upstream.address)

    listed = gateway("release", "billing", all_read_only=True)
    digest = listed.split()[-1]
    assert "find" in listed
    assert "refund:" not in listed
    assert readonly_named("acme", "billing_find") is None
    with pytest.raises(CommandError, match="by now: look at it again"):
        gateway("release", "billing", all_read_only=True, definition="abcdef")
    gateway("release", "billing", all_read_only=True, definition=digest)

    assert readonly_named("acme", "billing_find") is not None
    assert readonly_named("acme", "billing_list") is not None
    assert tool_named("acme", "billing_refund") is None


@pytest.mark.parametrize("what", LISTS)
def test_a_list_that_is_none_is_told_and_changes_nothing(billing, what):
    billing.tools = LISTS[what]

    with pytest.raises(CommandError, match="could not be read"):
        read_again()

    assert Watched.objects.get().error
    assert tool_named("acme", "billing_refund") is not None


def test_a_session_whose_id_cannot_be_sent_back_is_told_and_changes_nothing(billing):
    def greet(handler):
        found = {"protocolVersion": "2025-11-25", "capabilities": {}}
        hello = {"jsonrpc": "2.0", "id": handler.number, "result": found}
        handler.body(hello, Mcp_Session_Id="\xe9")

    billing.answers |= {
        "server/discover": lambda handler: handler.error(-32601, "Not known."),
        "initialize": greet,
    }

    with pytest.raises(CommandError, match="could not be read"):
        read_again()

    assert "cannot be sent back" in Watched.objects.get().error
    assert tool_named("acme", "billing_refund") is not None


_DEEP: dict = {}
for _ in range(50):
    _DEEP = {"not": _DEEP}
SCHEMAS = {
    "a schema of something else": {"type": "string"},
    "a list": ["object"],
    "a reference to elsewhere": {"type": "object", "properties": {"x": {"$ref": "https://x.y"}}},
    "a name that is no plain name": {"type": "object", "properties": {"a-b": {}}},
    "a number that is none": {"type": "object", "properties": {"x": {"maximum": 2**60}}},
    "great depth": {"type": "object", "properties": {"x": _DEEP}},
    "text that runs backwards": {"type": "object", "properties": {}, "title": "\u202egnp"},
}


@pytest.mark.parametrize("what", SCHEMAS)
def test_a_schema_that_cannot_be_trusted_is_refused_with_its_reason(upstream, acme, what):
    upstream.tools = [{**REFUND, "inputSchema": SCHEMAS[what]}]
    gateway("add", "billing", upstream.address)

    with pytest.raises(CommandError, match="cannot be offered"):
        gateway("release", "billing", "refund")


def test_a_server_elsewhere_is_another_server_and_its_tools_are_held(billing, signed_off):
    row = signed_off()

    gateway("add", "billing", billing.address.replace("127.0.0.1", "localhost"))

    assert is_held()
    gateway("release", "billing", "refund")
    execution.commit(row.pk)
    row.refresh_from_db()
    assert row.state in {"failed", "rolling_back"}
    assert billing.calls() == []


def test_the_server_of_another_tenant_does_not_exist(billing, globex):
    with pytest.raises(CommandError, match="has no MCP server"):
        gateway("list", "billing", tenant="globex")
    assert tool_named("globex", "billing_refund") is None


def test_a_server_that_is_removed_takes_its_tools_along(billing, signed_off):
    row = signed_off()
    gateway("hold", "billing", "refund")

    gateway("remove", "billing")

    assert tool_named("acme", "billing_refund") is None
    assert not is_held()
    execution.commit(row.pk)
    assert billing.calls() == []


def test_two_workers_read_a_list_once(billing):
    Watched.objects.update(read_again_at="2020-01-01T00:00Z")
    (pk,) = watched.due()
    billing.asked.clear()
    barrier = Barrier(2)

    def read():
        try:
            barrier.wait()
            watched.read_again(pk)
        finally:
            connections.close_all()

    threads = [Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert billing.methods().count("tools/list") == 1
    assert watched.due() == []


def test_operators_are_told_of_a_server_that_is_out_of_reach_until_it_answers(billing, acme):
    def failing():
        return metrics.gathered(frozenset({"acme"}))["assent_mcp_server_failing"]

    assert failing().values == {(("server", "acme/billing"),): 0.0}
    McpUpstream.objects.update(address="http://127.0.0.1:1/mcp")
    watched.read_now(Watched.objects.get().pk)

    assert failing().of(server="acme/billing") == 1
    assert metrics.gathered(frozenset({"globex"}))["assent_mcp_server_failing"].values == {}

    McpUpstream.objects.update(address=billing.address)
    watched.read_now(Watched.objects.get().pk)
    assert failing().of(server="acme/billing") == 0
