"""What each answer of a server proves: the table of docs/mcp-gateway.md, row by row."""

from __future__ import annotations

import hashlib
import json
import threading
from datetime import datetime

import pytest
from django.urls import reverse

from ledger import execution
from ledger.models import Transaction, UpstreamTool
from ledger.tools import tool_of
from ledger.tools.mcp import streamable_http, talks
from ledger.transactions import coordinator
from tests.conftest import propose
from tests.http_tools.test_traces import TRACEPARENT, proposed_in_a_trace
from tests.mcp_gateway.conftest import gateway
from tests.mcp_gateway.upstreams import REFUND

pytestmark = pytest.mark.django_db(transaction=True)

TEXT = {"content": [{"type": "text", "text": "Refunded."}]}
DONE = {**TEXT, "structuredContent": {"id": "re_7"}}


def committed(row):
    execution.commit(row.pk)
    row.refresh_from_db()
    return row


def test_the_server_gets_the_operation_key_and_our_headers_and_nothing_of_the_caller(
    billing, signed_off
):
    billing.answers["refund"] = DONE

    row = committed(signed_off())

    assert (row.state, row.receipt) == ("committed", "re_7")
    (call,) = billing.calls()
    assert call["name"] == "refund"
    assert call["arguments"] == {"invoice": "7", "amount": 48.2}
    assert call["_meta"]["assent/operation-key"] == row.operation_key
    assert datetime.fromisoformat(call["_meta"]["assent/lease-until"]) > row.decided_at
    assert call["_meta"]["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"
    headers = {name.lower(): value for name, value in billing.headers[-1].items()}
    assert headers["mcp-method"] == "tools/call"
    assert headers["mcp-name"] == "refund"
    assert headers["mcp-protocol-version"] == "2026-07-28"
    assert "authorization" not in headers


def test_the_server_is_told_the_agents_trace_context(billing, signed_off, alice):
    billing.answers["refund"] = DONE
    row = proposed_in_a_trace("billing_refund", invoice="7", amount=48.2)
    coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web")

    committed(row)

    (call,) = billing.calls()
    assert call["_meta"]["traceparent"] == TRACEPARENT


def test_an_answer_without_a_receipt_of_its_own_is_kept_by_its_hash(billing, signed_off):
    billing.answers["refund"] = TEXT

    row = committed(signed_off())

    digest = hashlib.sha256(
        json.dumps(TEXT, separators=(",", ":"), sort_keys=True).encode()
    ).hexdigest()
    assert (row.state, row.receipt) == ("committed", f"sha256:{digest}")
    assert row.result["text"] == "Refunded."


def test_an_answer_as_a_stream_is_read_until_it_has_come(billing, signed_off):
    ended = threading.Event()

    def stream(handler):
        write = handler.stream()
        write(b": hello\r\n\r\n")
        progress = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {}}
        write(f"event: message\ndata: {json.dumps(progress)}\n\n".encode())
        answer = {"jsonrpc": "2.0", "id": handler.number, "result": DONE}
        for piece in f"data: {json.dumps(answer)}\r\n\r\n".encode():
            write(bytes([piece]))
        ended.wait(20)  # the stream stays open

    billing.answers["refund"] = stream

    row = committed(signed_off())

    ended.set()
    assert (row.state, row.receipt) == ("committed", "re_7")


def test_a_stream_may_begin_with_an_event_without_data(billing, signed_off):
    """As the official SDKs begin theirs, for clients that come again."""

    def stream(handler):
        write = handler.stream()
        write(b"\xef\xbb\xbfid: 7_0\ndata: \n\n")
        write(b"event: ping\ndata: now\n\n")
        answer = {"jsonrpc": "2.0", "id": handler.number, "result": DONE}
        write(f"id: 7_1\nevent: message\ndata: {json.dumps(answer)}\n\n".encode())

    billing.answers["refund"] = stream

    row = committed(signed_off())

    assert (row.state, row.receipt) == ("committed", "re_7")


def test_a_stream_that_ends_early_is_read_on_from_its_last_event(billing, signed_off):
    numbers = []

    def begin(handler):
        numbers.append(handler.number)
        handler.stream()(b"id: 7_0\nretry: 1\ndata: \n\n")

    def go_on(handler):
        answer = {"jsonrpc": "2.0", "id": numbers[-1], "result": DONE}
        assert handler.headers["Last-Event-ID"] == "7_0"
        handler.stream()(f"id: 7_1\ndata: {json.dumps(answer)}\n\n".encode())

    billing.answers |= {"refund": begin, "GET": go_on}

    row = committed(signed_off())

    assert (row.state, row.receipt) == ("committed", "re_7")
    assert len(billing.calls()) == 1


def test_a_stream_that_goes_on_without_anything_new_is_given_up(billing, signed_off, monkeypatch):
    monkeypatch.setattr(streamable_http, "PAUSE_LEAST_S", 0.0)
    asked_again = []

    def end(handler):
        asked_again.append(handler.command)
        handler.stream()(b"id: 7_0\nretry: 0\ndata: \n\n")

    billing.answers |= {"refund": end, "GET": end}

    assert committed(signed_off()).state == "in_doubt"
    assert asked_again == ["POST"] + ["GET"] * (streamable_http.MOST_IN_VAIN + 1)


def test_the_streams_of_one_answer_count_together(billing, signed_off, monkeypatch):
    monkeypatch.setattr(streamable_http, "PAUSE_LEAST_S", 0.0)
    asked_again = []

    def say_much(handler):
        asked_again.append(handler.command)
        number = len(asked_again)
        handler.stream()(b":" * 400_000 + f"\nid: {number}\nretry: 0\ndata: \n\n".encode())

    billing.answers |= {"refund": say_much, "GET": say_much}

    assert committed(signed_off()).state == "in_doubt"
    assert asked_again == ["POST", "GET", "GET"]


def test_a_stream_that_ends_early_and_does_not_go_on_is_in_doubt(billing, signed_off):
    billing.answers["refund"] = lambda handler: handler.stream()(b"id: 7_0\ndata: \n\n") and None

    assert committed(signed_off()).state == "in_doubt"
    assert len(billing.calls()) == 1


def test_a_list_that_leads_to_a_refused_address_lets_nothing_be_called(
    billing, signed_off, settings
):
    row = signed_off()

    def begin(handler):
        settings.WEBHOOK_NETWORKS = []  # its name leads elsewhere from here on
        handler.stream()(b"id: 7_0\ndata: \n\n")

    billing.answers["tools/list"] = begin

    row = committed(row)

    assert (row.state, billing.calls()) == ("rolling_back", [])


def test_a_task_is_asked_for_until_it_has_ended(billing, signed_off, monkeypatch):
    monkeypatch.setattr(talks, "POLL_FIRST_S", 0.01)
    task = {"taskId": "t-1", "status": "working", "pollIntervalMs": 10}
    polls = iter([task, {**task, "status": "completed", "result": DONE}])
    billing.answers["refund"] = {"resultType": "task", **task}
    billing.answers["tasks/get"] = lambda _: next(polls)

    row = committed(signed_off())

    assert (row.state, row.receipt) == ("committed", "re_7")
    assert billing.methods().count("tasks/call") == 0
    assert len(billing.calls()) == 1


WITHOUT_EFFECT = {
    "a tool that it does not know": lambda handler: handler.error(-32602, "Unknown tool", 400),
    "a method that it does not know": lambda handler: handler.error(-32601, "Unknown", 404),
    "a request that it refuses": lambda handler: handler.error(-32600, "No."),
    "headers that it refuses": lambda handler: handler.error(-32020, "No.", 400),
}


@pytest.mark.parametrize("what", WITHOUT_EFFECT)
def test_a_refusal_before_the_call_is_a_failure_without_effect(billing, signed_off, what):
    billing.answers["refund"] = WITHOUT_EFFECT[what]

    row = committed(signed_off())

    assert row.state in {"failed", "rolling_back"}
    assert "refused the call" in row.error


def other_id(handler):
    handler.result(DONE, number=handler.number + 1)


def another_type_of_id(handler):
    handler.result(DONE, number=str(handler.number))


def hangs_up(handler):
    handler.close_connection = True
    handler.connection.close()


def huge(handler):
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", str(100 * 1024 * 1024))
    handler.end_headers()
    for _ in range(100):
        handler.wfile.write(b" " * 1024 * 1024)


def endless_stream(handler):
    write = handler.stream()
    while True:
        write(b": still at it\n\n" * 1000)


def ends_without_an_answer(handler):
    handler.stream()(b": that was it\n\n")


def redirects(handler):
    handler.body(b"", 307, Location="http://127.0.0.1:1/mcp")


UNKNOWN = {
    "an answer to another request": other_id,
    "an answer whose id is text": another_type_of_id,
    "a broken connection": hangs_up,
    "100 MB": huge,
    "a stream without an end": endless_stream,
    "a stream without the answer": ends_without_an_answer,
    "a redirect": redirects,
    "a status of its own trouble": lambda handler: handler.body(b"", 503),
    "no JSON": lambda handler: handler.body(b"{"),
    "JSON with numbers that are none": lambda handler: handler.body(b'{"id": NaN}'),
    "JSON of great depth": lambda handler: handler.body(b"[" * 100_000),
    "a list": lambda handler: handler.body([1]),
    "another error": lambda handler: handler.error(-32603, "Broken."),
    "an error of the tool": {**TEXT, "isError": True},
    "an error that is no yes": {**TEXT, "isError": "no"},
    "a question": {"resultType": "input_required", "inputRequests": {}, "requestState": "s"},
    "an empty object": {},
    "a task of an earlier revision": {"task": {"taskId": "t", "status": "working"}},
    "an unknown kind of answer": {"resultType": "novel"},
    "a task that has failed": {"resultType": "task", "taskId": "t", "status": "failed"},
    "a task that asks": {"resultType": "task", "taskId": "t", "status": "input_required"},
    "a task without an id": {"resultType": "task", "taskId": None, "status": "working"},
}


@pytest.mark.parametrize("what", UNKNOWN)
def test_whatever_proves_nothing_is_in_doubt_and_is_not_called_again(billing, signed_off, what):
    billing.answers["refund"] = UNKNOWN[what]

    row = committed(signed_off())
    execution.commit(row.pk)

    row.refresh_from_db()
    assert row.state == "in_doubt", (row.state, row.error, row.error_detail)
    assert len(billing.calls()) == 1


def test_a_task_that_is_forgotten_is_in_doubt(billing, signed_off, monkeypatch):
    monkeypatch.setattr(talks, "POLL_FIRST_S", 0.01)
    billing.answers["refund"] = {
        **{"resultType": "task", "taskId": "t", "status": "working", "pollIntervalMs": 1}
    }
    billing.answers["tasks/get"] = lambda handler: handler.error(-32602, "Unknown task", 400)

    assert committed(signed_off()).state == "in_doubt"


def test_a_server_that_goes_away_while_it_works_on_a_task_is_in_doubt(
    billing, signed_off, monkeypatch
):
    monkeypatch.setattr(talks, "POLL_FIRST_S", 0.01)
    task = {"resultType": "task", "taskId": "t", "status": "working", "pollIntervalMs": 1}

    def accepts_and_dies(handler):
        handler.close_connection = True
        billing.stop()
        handler.body({"jsonrpc": "2.0", "id": handler.number, "result": task}, Connection="close")

    billing.answers["refund"] = accepts_and_dies

    row = committed(signed_off())

    assert row.state == "in_doubt", (row.state, row.error)
    assert len(billing.calls()) == 1


@pytest.mark.parametrize("receipt", [["re_1"], {"id": 1}, True, None, ""])
def test_a_receipt_that_is_none_is_in_doubt_where_one_is_promised(billing, apply, sign, receipt):
    apply("billing", "refund", receipt="refund.id")
    billing.answers["refund"] = {**TEXT, "structuredContent": {"refund": {"id": receipt}}}

    row = committed(sign())

    assert row.state == "in_doubt"
    assert "no receipt at refund.id" in row.error_detail


def test_a_receipt_is_where_the_manifest_says(billing, apply, sign):
    apply("billing", "refund", receipt="refund.number")
    billing.answers["refund"] = {**TEXT, "structuredContent": {"refund": {"number": 71}}}

    assert committed(sign()).receipt == "71"


def test_errors_mean_that_nothing_happened_where_an_operator_says_so(billing, apply, sign):
    apply("billing", "refund", errors_mean_nothing_happened=True)
    billing.answers["refund"] = {**TEXT, "isError": True}

    row = committed(sign())

    assert row.state in {"failed", "rolling_back"}
    assert row.error == "Refunded."


def test_what_the_tool_says_of_an_error_reaches_desk_and_agent(
    billing, signed_off, as_helpdesk, as_alice
):
    said = "Path outside\u202e of the folder."
    billing.answers["refund"] = {"content": [{"type": "text", "text": said}], "isError": True}

    row = committed(signed_off())

    assert row.state == "in_doubt"
    assert row.error == "The tool says: Path outside\N{REPLACEMENT CHARACTER} of the folder."
    answer = as_helpdesk.get(f"/transactions/{row.pk}").json()
    assert "Path outside" in answer["outcome"]["sentence"]
    assert (
        "The tool says: Path outside"
        in as_alice.get(reverse("desk:transaction", args=[row.pk])).content.decode()
    )


@pytest.mark.parametrize(("flag", "state"), [(True, "rolling_back"), (False, "in_doubt")])
def test_release_is_told_what_an_error_of_the_tool_means(upstream, signed_off, acme, flag, state):
    gateway("add", "billing", upstream.address)
    gateway("release", "billing", "refund", errors_mean_nothing_happened=flag)
    upstream.answers["refund"] = {**TEXT, "isError": True}

    assert committed(signed_off()).state == state


def test_a_server_that_is_not_there_was_sent_nothing(billing, signed_off):
    row = signed_off()
    billing.stop()

    committed(row)
    assert (row.state, row.ending) == ("rolling_back", "failed")
    assert row.error.startswith("Nothing was sent: ")
    assert billing.calls() == []
    execution.roll_back(row.pk)
    row.refresh_from_db()
    assert (row.state, row.receipt) == ("failed", "")


def test_what_is_too_large_to_keep_is_left_out_and_the_receipt_kept(billing, signed_off):
    billing.answers["refund"] = {
        "content": [],
        "structuredContent": {"id": "re_7", "rows": ["x" * 1000] * 600},
    }

    row = committed(signed_off())

    assert (row.state, row.receipt) == ("committed", "re_7")
    assert "too large" in row.result["assent_note"]


def test_text_that_turns_round_is_cleaned_before_it_is_kept(billing, signed_off):
    billing.answers["refund"] = {
        "content": [{"type": "text", "text": "pay \u202eyap\u0000"}],
        "structuredContent": {"id": "re\u202e_7"},
    }

    row = committed(signed_off())

    assert row.state == "committed"
    assert "\u202e" not in row.receipt + row.result["text"]


# --- other tools of the server that plan, look up and compensate ------------------------------

KEY = {
    "name": "find",
    "description": "Finds a refund.",
    "inputSchema": {"type": "object", "properties": {"key": {"type": "string"}}},
}


@pytest.fixture
def sign(alice):
    def make():
        row = propose("billing_refund", invoice="7", amount=48.2)
        coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web")
        return row

    return make


@pytest.fixture
def with_find(upstream, acme):
    """Registered with a second tool; returns what a manifest says of that."""
    upstream.tools = [REFUND, KEY]
    gateway("add", "billing", upstream.address)
    sha256 = UpstreamTool.objects.get(name="find").sha256
    return lambda **more: {"tool": "find", "sha256": sha256, **more}


def test_what_is_in_doubt_is_looked_up_with_the_tool_that_the_manifest_names(
    upstream, with_find, apply, sign
):
    find = with_find(arguments={"key": "{operation_key}"})
    apply("billing", "refund", find_receipt=find)
    upstream.answers["refund"] = hangs_up
    row = committed(sign())
    assert row.state == "in_doubt"
    upstream.answers["find"] = {**TEXT, "structuredContent": {"id": "re_9"}}

    committed(row)

    assert (row.state, row.receipt) == ("committed", "re_9")
    assert upstream.calls()[-1]["arguments"] == {"key": row.operation_key}
    assert [call["name"] for call in upstream.calls()] == ["refund", "find"]


def test_records_that_are_complete_prove_that_nothing_happened(upstream, with_find, apply, sign):
    apply("billing", "refund", find_receipt=with_find(is_complete=True))
    upstream.answers["refund"] = hangs_up
    upstream.answers["find"] = {**TEXT, "structuredContent": {"id": None}}

    row = committed(sign())
    committed(row)

    assert row.state in {"failed", "rolling_back"}


LOOK_UPS_THAT_FAIL = {
    "a look-up that is refused": lambda server: server.answers.update(
        find=lambda handler: handler.error(-32602, "Unknown tool", 400)
    ),
    "a look-up that has changed": lambda server: setattr(
        server, "tools", [REFUND, {**KEY, "description": "Another."}]
    ),
    "a look-up that is gone": lambda server: setattr(server, "tools", [REFUND]),
}


@pytest.mark.parametrize("what", LOOK_UPS_THAT_FAIL)
def test_a_look_up_that_was_not_made_proves_nothing(upstream, with_find, apply, sign, what):
    apply("billing", "refund", find_receipt=with_find(is_complete=True))
    upstream.answers["refund"] = hangs_up
    row = committed(sign())
    LOOK_UPS_THAT_FAIL[what](upstream)

    committed(row)

    assert row.state == "in_doubt", row.error


def again_after(upstream, apply, sign, first, then):
    """A tool that may be called again, whose first call was in doubt."""
    apply(
        "billing",
        "refund",
        errors_mean_nothing_happened=True,
        contract={"retry_safe": True},
    )
    upstream.answers["refund"] = first
    row = committed(sign())
    assert row.state == "in_doubt"
    then()
    return committed(row)


REFUSED_LATER = {
    "held": lambda server: gateway("hold", "billing", "refund"),
    "changed": lambda server: setattr(server, "tools", [{**REFUND, "description": "Another."}]),
    "refused": lambda server: server.answers.update(
        refund=lambda handler: handler.error(-32602, "No.", 400)
    ),
    "an error": lambda server: server.answers.update(refund={**TEXT, "isError": True}),
}


@pytest.mark.parametrize("what", REFUSED_LATER)
def test_a_second_call_that_does_nothing_proves_nothing_of_the_first(billing, apply, sign, what):
    row = again_after(billing, apply, sign, hangs_up, lambda: REFUSED_LATER[what](billing))

    assert row.state == "in_doubt", row.error


def test_a_plan_of_the_server_is_what_the_approver_sees(upstream, with_find, apply):
    apply("billing", "refund", plan=with_find(arguments={"key": "{invoice}"}))
    upstream.answers["find"] = {"content": [{"type": "text", "text": "Refund 48.20 for 7."}]}

    row = propose("billing_refund", invoice="7", amount=48.2)

    assert row.action_summary == "Refund 48.20 for 7."
    assert upstream.calls()[-1]["arguments"] == {"key": "7"}


def test_a_compensation_is_told_the_receipt(upstream, with_find, apply, sign, alice):
    undo = with_find(arguments={"key": "{receipt}"})
    terms = {"consequence_level": "COMPENSABLE"}
    apply("billing", "refund", compensate=undo, contract=terms)
    upstream.answers |= {"refund": DONE, "find": {"structuredContent": {"id": "un_7"}}}
    row = committed(sign())
    coordinator.compensate(row.pk, by=alice, via="web", reason="Wrong customer.")

    execution.compensate(row.pk)

    row.refresh_from_db()
    assert (row.state, row.compensation_receipt) == ("compensated", "un_7")
    assert upstream.calls()[-1]["arguments"] == {"key": "re_7"}


def test_nothing_is_made_good_by_a_tool_that_is_held(upstream, with_find, apply, sign, alice):
    undo = with_find(arguments={"key": "{receipt}"})
    apply("billing", "refund", compensate=undo, contract={"consequence_level": "COMPENSABLE"})
    upstream.answers |= {"refund": DONE, "find": {"structuredContent": {"id": "un_7"}}}
    row = committed(sign())
    coordinator.compensate(row.pk, by=alice, via="web", reason="Wrong customer.")
    gateway("hold", "billing", "refund")

    execution.compensate(row.pk)

    row.refresh_from_db()
    assert row.state == "compensating"
    assert [call["name"] for call in upstream.calls()] == ["refund"]


def test_what_a_tool_of_the_server_says_is_valid_is_carried_out_and_nothing_else(
    upstream, with_find, apply, sign
):
    apply("billing", "refund", still_valid=with_find(arguments={"key": "{invoice}"}))
    upstream.answers |= {"refund": DONE, "find": {"structuredContent": {"still_valid": "yes"}}}
    row = committed(sign())
    assert row.state == "approved"
    assert "does not say true or false" in row.error_detail

    upstream.answers["find"] = {"structuredContent": {"still_valid": True}}
    Transaction.objects.update(next_attempt_at=None)
    row = committed(row)

    assert row.state == "committed"
    assert [call["name"] for call in upstream.calls()] == ["find", "find", "refund"]


@pytest.mark.parametrize(
    ("terms", "editable"),
    [({}, []), ({"contract": {"operation_key": "refund:{tenant}:{invoice}"}}, ["amount"])],
)
def test_what_identifies_an_operation_is_not_editable_and_by_default_all_of_it_does(
    billing, apply, terms, editable
):
    apply("billing", "refund", **terms)

    row = propose("billing_refund", invoice="7", amount=48.2)

    assert tool_of(row).editable_arguments == editable
    assert bool(coordinator.why_not_editable(row)) == (not editable)
