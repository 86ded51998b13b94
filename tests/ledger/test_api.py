"""REST as an agent meets it: keys, duplicates, bad input, tokens, polling."""

from __future__ import annotations

import asyncio
import json
import threading
from datetime import timedelta
from uuid import UUID, uuid4

import httpx
import pytest
from django.db import connections
from django.db.models.functions import Now

from ledger import execution
from ledger.api.waiting.bells import changes
from ledger.models import AgentToken, IdempotencyKey, Transaction
from ledger.states import State
from ledger.transactions import coordinator
from tests import asgi
from tests.processes import until

DIGEST = "0" * 64


def problem(answer, status: int, code: str) -> dict:
    assert answer.status_code == status, answer.content
    assert answer["Content-Type"] == "application/problem+json"
    body = answer.json()
    assert (body["type"], body["status"]) == (f"urn:assent:problem:{code}", status)
    assert body["title"]
    assert body["detail"]
    return body


def test_prepare_answers_with_a_token_of_intent(as_helpdesk):
    answer = as_helpdesk.propose(arguments={"reference": "o1", "amount": "48.20"}, reason="broken")

    token = answer.json()
    assert answer.status_code == 201
    assert token["status"] == "prepared"
    assert token["action_summary"] == "Pay 48.20 EUR for o1"
    assert token["financial_impact"] == {"amount": "48.20", "currency": "EUR"}
    assert token["consequence_level"] == "COMPENSABLE"
    assert token["expires_in"] == 900
    assert len(token["intent_digest"]) == 64
    row = Transaction.objects.get(pk=token["transaction_id"])
    assert row.stated_reason == "broken"
    assert row.is_untouched


def test_the_w3c_trace_is_kept(as_helpdesk):
    trace = "0af7651916cd43dd8448eb211c80319c"
    body = {"tool": "pay", "arguments": {"reference": "o1", "amount": "1"}, "run_id": "run 1"}

    answer = as_helpdesk.post(
        "/transactions", body, idempotency_key="k", traceparent=f"00-{trace}-b7ad6b7169203331-01"
    )

    row = Transaction.objects.get(pk=answer.json()["transaction_id"])
    assert (row.trace_id, row.run_id) == (trace, "run 1")
    assert (
        as_helpdesk.get(f"/transactions?trace_id={trace}").json()["items"][0]["run_id"] == "run 1"
    )


# --- idempotency ------------------------------------------------------------------------


def test_the_key_is_required(as_helpdesk):
    body = {"tool": "pay", "arguments": {"reference": "o1", "amount": "1"}}

    problem(as_helpdesk.post("/transactions", body), 400, "idempotency_key_missing")


def test_the_same_request_again_gets_the_same_answer_and_how_it_stands(as_helpdesk, the_world):
    said = {"arguments": {"reference": "o1", "amount": "1"}}
    first = as_helpdesk.propose(key="k1", **said)
    again = as_helpdesk.propose(key='"k1"', **said)

    now = {
        "status": "prepared",
        "ledger_status": "planned",
        "receipt": "",
        "ending_reason": "",
        "ended_at": None,
        "outcome": first.json()["outcome"],
    }
    assert (again.status_code, again.json()) == (201, {**first.json(), "now": now})
    assert again["Idempotent-Replayed"] == "true"
    assert "Idempotent-Replayed" not in first
    assert (Transaction.objects.count(), the_world.plans) == (1, 1)


def test_a_key_replayed_after_the_commit_says_that_it_is_committed(as_helpdesk, alice):
    said = {"key": "k1", "arguments": {"reference": "o1", "amount": "1"}}
    token = as_helpdesk.propose(**said).json()
    row = coordinator.approve(
        UUID(token["transaction_id"]), digest=token["intent_digest"], by=alice, via="web"
    )
    execution.commit(row.pk)
    row.refresh_from_db()

    again = as_helpdesk.propose(**said).json()

    assert again["status"] == "prepared", "what was answered then"
    assert (again["now"]["status"], again["now"]["receipt"]) == ("committed", row.receipt)
    assert again["now"]["ledger_status"] == "succeeded"
    assert row.receipt


def test_the_same_key_with_another_payload_is_refused(as_helpdesk):
    as_helpdesk.propose(key="k1", arguments={"reference": "o1", "amount": "1"})

    answer = as_helpdesk.propose(key="k1", arguments={"reference": "o1", "amount": "2"})

    problem(answer, 422, "idempotency_key_reused")
    assert Transaction.objects.count() == 1


def test_keys_of_two_agents_do_not_meet(as_helpdesk, supervisor, agent_client):
    one = as_helpdesk.propose(key="k1")
    other = agent_client(supervisor).propose(key="k1")

    assert one.json()["transaction_id"] != other.json()["transaction_id"]


@pytest.mark.django_db(transaction=True)
def test_while_the_first_is_still_planning_the_second_is_told_to_come_back(as_helpdesk, the_world):
    is_planning, may_finish = threading.Event(), threading.Event()
    the_world.planning = lambda: (is_planning.set(), may_finish.wait(10))
    said = {"key": "k1", "arguments": {"reference": "o1", "amount": "1"}}
    answers = []

    def first() -> None:
        answers.append(as_helpdesk.propose(**said))
        connections.close_all()

    thread = threading.Thread(target=first)
    thread.start()
    is_planning.wait(10)
    early = as_helpdesk.propose(**said)
    may_finish.set()
    thread.join()
    the_world.planning = None

    problem(early, 409, "request_in_progress")
    assert early["Retry-After"] == "1"
    assert answers[0].status_code == 201
    assert as_helpdesk.propose(**said)["Idempotent-Replayed"] == "true"


@pytest.mark.django_db(transaction=True)
def test_twenty_requests_with_one_key_make_one_transaction(as_helpdesk, the_world):
    said = {"key": "k1", "arguments": {"reference": "o1", "amount": "1"}}
    start = threading.Barrier(20)
    statuses = []

    def ask() -> None:
        start.wait()
        statuses.append(as_helpdesk.propose(**said).status_code)
        connections.close_all()

    threads = [threading.Thread(target=ask) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert set(statuses) <= {201, 409}
    assert 201 in statuses
    assert Transaction.objects.count() == 1


def test_a_live_operation_answers_with_the_transaction_that_has_it(as_helpdesk, the_world):
    said = {"reference": "o1", "amount": "1"}
    first = as_helpdesk.propose(arguments=said).json()

    same = as_helpdesk.propose(arguments=said | {"amount": "1.00"}, key="k2")
    again = as_helpdesk.propose(arguments=said | {"amount": "1.00"}, key="k2")

    assert same.status_code == 200
    assert same.json()["duplicate_of"] == same.json()["transaction_id"] == first["transaction_id"]
    assert (again.status_code, again.json()) == (200, {**same.json(), "now": again.json()["now"]})
    assert (Transaction.objects.count(), the_world.plans) == (1, 1)


def test_a_live_operation_with_another_input_is_a_conflict_that_names_both(as_helpdesk):
    first = as_helpdesk.propose(arguments={"reference": "o1", "amount": "1"}).json()

    answer = as_helpdesk.propose(arguments={"reference": "o1", "amount": "2"})

    body = problem(answer, 409, "operation_key_conflict")
    assert body["duplicate_of"] == first["transaction_id"]
    assert body["live_input_hash"] != body["your_input_hash"]


def test_an_operation_without_effect_may_be_proposed_again(as_helpdesk):
    said = {"reference": "o1", "amount": "1"}
    first = as_helpdesk.propose(arguments=said).json()
    Transaction.objects.filter(pk=first["transaction_id"]).update(state=State.ABORTED)

    assert as_helpdesk.propose(arguments=said).status_code == 201


def test_key_parts_cannot_collide_across_their_borders(as_helpdesk, globex, stranger, agent_client):
    one = as_helpdesk.propose(arguments={"reference": "a:b", "amount": "1"})
    other = as_helpdesk.propose(arguments={"reference": "a%3Ab", "amount": "1"})
    foreign = agent_client(stranger).propose(arguments={"reference": "a:b", "amount": "1"})

    assert [one.status_code, other.status_code, foreign.status_code] == [201, 201, 201]


def test_a_cancel_that_overtakes_its_prepare_stops_it(as_helpdesk, the_world):
    early = as_helpdesk.post("/transactions/cancel", {"idempotency_key": "k1"})

    late = as_helpdesk.propose(key="k1")

    assert early.json() == {"idempotency_key": "k1", "transaction": None}
    problem(late, 409, "canceled_before_prepared")
    assert (Transaction.objects.count(), the_world.plans) == (0, 0)


def test_cancel_by_key_finds_what_was_prepared(as_helpdesk):
    token = as_helpdesk.propose(key="k1").json()

    answer = as_helpdesk.post("/transactions/cancel", {"idempotency_key": "k1"})

    assert answer.json()["transaction"]["transaction_id"] == token["transaction_id"]
    assert answer.json()["transaction"]["status"] == "rolling_back"


# --- refusals ---------------------------------------------------------------------------


def test_a_refused_plan_is_kept_and_said_again_for_the_same_key(as_helpdesk):
    said = {"key": "k1", "arguments": {"reference": "unknown", "amount": "1"}}

    first, again = as_helpdesk.propose(**said), as_helpdesk.propose(**said)

    body = problem(first, 422, "plan_refused")
    outcome = body["outcome"]
    assert (outcome["kind"], outcome["is_final"], outcome["do_not_retry"]) == (
        "refused",
        True,
        False,
    )
    assert body["detail"] in outcome["sentence"]
    assert body["detail"] == "There is no such payment."
    assert problem(again, 422, "plan_refused")["transaction_id"] == body["transaction_id"]
    row = Transaction.objects.get()
    assert (row.state, row.events.get().kind) == ("refused", "refused")


def test_a_plan_that_breaks_prepares_nothing_and_may_be_tried_again(as_helpdesk, the_world):
    def breaks() -> None:
        raise ConnectionError("down")

    the_world.planning = breaks
    problem(as_helpdesk.propose(key="k1"), 502, "plan_failed")
    the_world.planning = None

    assert as_helpdesk.propose(key="k1").status_code == 201


MALFORMED = [
    (b"", 422),
    (b"{", 400),
    (b'{"tool": "pay", "arguments": {"amount": NaN}}', 400),
    (b'{"tool": "pay", "tool": "launch", "arguments": {}}', 400),
    (b"[" * 100_000, 400),
    (b'"just text"', 422),
    (b"null", 422),
    (b"\xff\xfe", 400),
]


@pytest.mark.parametrize(("raw", "status"), MALFORMED, ids=[str(raw[:40]) for raw, _ in MALFORMED])
def test_a_body_that_is_not_what_was_asked_for_is_refused(as_helpdesk, raw, status):
    answer = as_helpdesk.http.generic(
        "POST",
        "/api/v1/transactions",
        raw,
        content_type="application/json",
        headers={"Authorization": f"Bearer {as_helpdesk.token}", "Idempotency-Key": "k"},
    )

    problem(answer, status, "malformed" if status == 400 else "invalid_request")
    assert not IdempotencyKey.objects.exists()


BAD_ARGUMENTS = [
    {"reference": "o1"},
    {"reference": "o1", "amount": "NaN"},
    {"reference": "o1", "amount": "Infinity"},
    {"reference": "o1", "amount": "-1"},
    {"reference": "o1", "amount": "1e400"},
    {"reference": "o1", "amount": "48.205"},
    {"reference": "o1", "amount": "1", "currency": "XYZ"},
    {"reference": "o1", "amount": "1", "currency": "eur"},
    {"reference": "o1", "amount": "1", "surprise": True},
    {"reference": 7, "amount": "1"},
    {"reference": "x" * 20_000, "amount": "1"},
    {"reference": "x" * 9_000, "amount": "1"},
    {"reference": "pay\u202eevil", "amount": "1"},
    {"reference": "nul\x00", "amount": "1"},
    {"reference": "lone\ud800", "amount": "1"},
    {"reference": "bell\x07", "amount": "1"},
    {"reference": {"deep": {"er": 1}}, "amount": "1"},
]


@pytest.mark.parametrize("arguments", BAD_ARGUMENTS, ids=lambda value: repr(value)[:50])
def test_arguments_that_cannot_be_meant_are_refused_and_nothing_is_prepared(as_helpdesk, arguments):
    answer = as_helpdesk.http.generic(
        "POST",
        "/api/v1/transactions",
        json.dumps({"tool": "pay", "arguments": arguments}),
        content_type="application/json",
        headers={"Authorization": f"Bearer {as_helpdesk.token}", "Idempotency-Key": "k"},
    )

    assert answer.status_code == 422
    assert answer["Content-Type"] == "application/problem+json"
    # Where planning had begun, what it held is being released; nothing else is left.
    assert not Transaction.objects.exclude(ending="abandoned").exists()


def test_an_unknown_tool_is_named(as_helpdesk):
    assert "'fly'" in problem(as_helpdesk.propose("fly"), 404, "unknown_tool")["detail"]


def test_the_contract_limits_the_time_to_live(as_helpdesk):
    for ttl_s in (1, 86_401):
        problem(as_helpdesk.propose(ttl_s=ttl_s), 422, "invalid_request")
    for ttl_s in (0, -5, 10**12, "soon", float(2**63)):
        assert as_helpdesk.propose(ttl_s=ttl_s).status_code == 422
    assert as_helpdesk.propose(ttl_s=60).json()["expires_in"] == 60


def test_a_huge_body_is_413(as_helpdesk):
    problem(as_helpdesk.propose(reason="x" * 300_000), 413, "too_large")


# --- tokens and tenants -----------------------------------------------------------------


def test_without_a_good_token_nothing_is_told(as_helpdesk):
    for token in ("", "Bearer", "Bearer nonsense", "Basic abc", f"Bearer {as_helpdesk.token}x"):
        answer = as_helpdesk.http.get("/api/v1/transactions", headers={"Authorization": token})
        problem(answer, 401, "not_authenticated")
        assert answer["WWW-Authenticate"].startswith("Bearer")


@pytest.mark.parametrize("column", ["revoked_at", "expires_at"])
def test_a_token_that_was_revoked_or_has_expired_is_dead_at_once(as_helpdesk, column):
    assert as_helpdesk.get("/transactions").status_code == 200

    past = Now() - timedelta(seconds=1)
    AgentToken.objects.filter(pk=as_helpdesk.token_row.pk).update(**{column: past})

    problem(as_helpdesk.get("/transactions"), 401, "not_authenticated")


def test_an_agent_that_was_switched_off_is_shut_out(as_helpdesk):
    as_helpdesk.agent.is_active = False
    as_helpdesk.agent.save()

    problem(as_helpdesk.propose(), 401, "not_authenticated")


def test_a_token_is_stored_as_a_hash_only(as_helpdesk):
    row = AgentToken.objects.values().get()

    assert as_helpdesk.token not in str(row)


def test_another_tenants_transaction_does_not_exist(as_helpdesk, stranger, agent_client):
    mine = as_helpdesk.propose().json()["transaction_id"]
    spy = agent_client(stranger, ["propose", "read_all", "decide"])

    for answer in (
        spy.get(f"/transactions/{mine}"),
        spy.post(f"/transactions/{mine}/cancel"),
        spy.post(f"/transactions/{mine}/approve", {"intent_digest": DIGEST}),
        spy.post(f"/transactions/{mine}/reject", {"intent_digest": DIGEST, "reason": "x"}),
        spy.get(f"/transactions/{uuid4()}"),
    ):
        assert problem(answer, 404, "not_found")["detail"] == "There is no such transaction"
    assert spy.get("/transactions").json()["items"] == []


def test_an_agent_sees_its_own_and_with_read_all_its_tenants(as_helpdesk, supervisor, agent_client):
    mine = as_helpdesk.propose().json()["transaction_id"]

    problem(agent_client(supervisor).get(f"/transactions/{mine}"), 404, "not_found")
    assert agent_client(supervisor, ["read_all"]).get(f"/transactions/{mine}").status_code == 200


def test_only_the_decide_scope_decides_and_only_where_the_contract_says_so(
    as_helpdesk, supervisor, agent_client
):
    order = as_helpdesk.propose("order", arguments={"item": "desk"}).json()
    payment = as_helpdesk.propose().json()
    boss = agent_client(supervisor, ["decide"])

    def decide(who, token):
        return who.post(
            f"/transactions/{token['transaction_id']}/approve",
            {"intent_digest": token["intent_digest"]},
        )

    problem(decide(as_helpdesk, order), 403, "not_allowed")
    problem(decide(boss, payment), 403, "not_allowed")
    answer = decide(boss, order)
    assert (answer.status_code, answer.json()["status"]) == (200, "approved")
    assert answer.json()["decisions"][0]["principal"] == "agent:acme/supervisor"


def test_an_agent_with_every_scope_still_cannot_decide_on_its_own(helpdesk, agent_client):
    greedy = agent_client(helpdesk, ["propose", "read_all", "decide"])
    token = greedy.propose("order", arguments={"item": "desk"}).json()

    answer = greedy.post(
        f"/transactions/{token['transaction_id']}/approve",
        {"intent_digest": token["intent_digest"]},
    )

    problem(answer, 403, "own_transaction")


def test_who_decides_never_comes_from_the_body(as_helpdesk, supervisor, agent_client, alice):
    token = as_helpdesk.propose("order", arguments={"item": "desk"}).json()

    answer = agent_client(supervisor, ["decide"]).post(
        f"/transactions/{token['transaction_id']}/approve",
        {"intent_digest": token["intent_digest"], "principal": str(alice)},
    )

    problem(answer, 422, "invalid_request")


def test_no_get_and_no_head_decides(as_helpdesk, supervisor, agent_client):
    token = as_helpdesk.propose("order", arguments={"item": "desk"}).json()
    boss = agent_client(supervisor, ["decide"])
    path = f"/transactions/{token['transaction_id']}/approve"

    assert boss.get(path).status_code == 405
    assert boss.http.head(f"/api/v1{path}").status_code == 405
    assert Transaction.objects.get().state == State.PREPARED


# --- reading ----------------------------------------------------------------------------


def test_the_reason_of_a_rejection_reaches_the_agent(as_helpdesk, alice):
    token = as_helpdesk.propose().json()
    coordinator.reject(
        UUID(token["transaction_id"]),
        digest=token["intent_digest"],
        by=alice,
        via="web",
        reason="Ask for the photo first.",
    )

    body = as_helpdesk.get(f"/transactions/{token['transaction_id']}").json()

    assert (body["ending"], body["ending_reason"]) == ("rejected", "Ask for the photo first.")
    assert body["decisions"][0]["principal_name"] == "Alice Moreau"
    assert body["outcome"] == {
        "kind": "refused",
        "is_final": True,
        "sentence": 'It was refused, with the reason: "Ask for the photo first.". Nothing was '
        "carried out. Do not propose it again, in this or another form, unless the user asks for "
        "it.",
        "do_not_retry": True,
    }


def test_polling_too_fast_is_slowed_down_and_then_stopped(as_helpdesk):
    path = f"/transactions/{as_helpdesk.propose().json()['transaction_id']}"

    answers = [as_helpdesk.get(path) for _ in range(6)]

    assert [answer.status_code for answer in answers] == [200, 200, 200, 200, 429, 429]
    assert all(answer["Retry-After"] == "2" for answer in answers)
    problem(answers[-1], 429, "polling_too_fast")


def test_what_has_ended_is_read_as_often_as_one_likes(as_helpdesk):
    path = f"/transactions/{as_helpdesk.propose().json()['transaction_id']}"
    as_helpdesk.post(f"{path}/cancel")
    execution.roll_back(Transaction.objects.get().pk)

    assert {as_helpdesk.get(path).status_code for _ in range(6)} == {200}


def test_nothing_new_costs_no_body(as_helpdesk, alice):
    token = as_helpdesk.propose().json()
    path = f"/transactions/{token['transaction_id']}"
    etag = as_helpdesk.get(path)["ETag"]

    same = as_helpdesk.get(path, if_none_match=etag)
    coordinator.approve(
        UUID(token["transaction_id"]), digest=token["intent_digest"], by=alice, via="web"
    )
    changed = as_helpdesk.get(path, if_none_match=etag)

    assert (same.status_code, same.content) == (304, b"")
    assert (changed.status_code, changed.json()["status"]) == (200, "approved")


@pytest.mark.django_db(transaction=True)
def test_waiting_agents_hear_of_decisions_at_once_and_hold_no_connections(as_helpdesk, alice):
    tokens = [as_helpdesk.propose().json() for _ in range(4)]
    paths = [f"/api/v1/transactions/{token['transaction_id']}?wait=30" for token in tokens]

    def approve_all() -> None:
        for token in tokens:
            coordinator.approve(
                UUID(token["transaction_id"]), digest=token["intent_digest"], by=alice, via="web"
            )
        connections.close_all()

    async def story() -> list[httpx.Response]:
        def wait(path: str) -> asyncio.Task[httpx.Response]:
            return asyncio.create_task(asgi.request("GET", path, as_helpdesk.token))

        polls = [wait(paths[0])]  # with it the process begins to listen, over one connection
        await asyncio.to_thread(until, lambda: changes.number_of_subjects == 1)
        before = await asyncio.to_thread(_number_of_connections)
        polls += [wait(path) for path in paths[1:]]
        await asyncio.to_thread(until, lambda: changes.number_of_subjects == len(paths))
        await asyncio.to_thread(until, lambda: _number_of_connections() <= before)
        await asyncio.to_thread(approve_all)
        return await asyncio.wait_for(asyncio.gather(*polls), 5)

    answers = asyncio.run(story())

    assert [answer.json()["status"] for answer in answers] == ["approved"] * len(paths)


def _number_of_connections() -> int:
    """Of this database, but for the one that asks."""
    with connections["default"].cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )
        number = int(cursor.fetchone()[0])
    connections.close_all()
    return number


def test_waiting_for_what_has_ended_answers_at_once(as_helpdesk):
    token = as_helpdesk.propose().json()
    Transaction.objects.update(state=State.ABORTED)

    answer = as_helpdesk.get(f"/transactions/{token['transaction_id']}?wait=30")

    assert answer.json()["ledger_status"] == "failed"


def test_the_list_goes_back_in_pages_and_filters(as_helpdesk):
    ids = [as_helpdesk.propose().json()["transaction_id"] for _ in range(5)]
    as_helpdesk.propose("order", arguments={"item": "desk"})

    first = as_helpdesk.get("/transactions?tool=pay&limit=2").json()
    second = as_helpdesk.get(f"/transactions?tool=pay&limit=3&cursor={first['next_cursor']}").json()

    seen = [item["transaction_id"] for item in first["items"] + second["items"]]
    assert seen == ids[::-1]
    assert second["next_cursor"] is None
    assert as_helpdesk.get("/transactions?state=committed").json()["items"] == []
    assert as_helpdesk.get("/transactions?state=nonsense").status_code == 422


# --- tools ------------------------------------------------------------------------------


def test_the_catalogue_says_what_each_tool_promises(as_helpdesk):
    tools = {tool["name"]: tool for tool in as_helpdesk.get("/tools").json()}

    pay = tools["pay"]
    assert pay["required_approver"] == "HUMAN"
    assert pay["operation_key"] == "pay:{tenant}:{reference}"
    assert set(pay["input_schema"]["required"]) == {"reference", "amount"}
    assert "context" not in pay["input_schema"]["properties"]
    assert tools["look_up"]["kind"] == "readonly"
    assert as_helpdesk.get("/tools/pay").json() == pay
    problem(as_helpdesk.get("/tools/fly"), 404, "unknown_tool")


def test_a_readonly_tool_runs_directly_and_is_recorded(as_helpdesk):
    answer = as_helpdesk.post("/tools/look_up/call", {"arguments": {"word": "assent"}})

    assert answer.json()["result"] == {"meaning": "ASSENT"}
    from ledger.models import Reading

    assert (Reading.objects.get().tool, Reading.objects.get().tenant) == ("look_up", "acme")
    problem(
        as_helpdesk.post("/tools/look_up/call", {"arguments": {"word": "broken"}}),
        502,
        "tool_failed",
    )
    problem(as_helpdesk.post("/tools/pay/call", {"arguments": {}}), 422, "invalid_request")
    problem(as_helpdesk.post("/tools/fly/call", {"arguments": {}}), 404, "unknown_tool")


def test_a_readonly_tool_that_does_not_answer_holds_nobody_up(as_helpdesk):
    answer = as_helpdesk.post("/tools/dawdle/call", {"arguments": {}})

    problem(answer, 502, "tool_failed")


def test_the_openapi_document_is_served(client):
    paths = client.get("/api/v1/openapi.json").json()["paths"]

    assert "/api/v1/transactions/{transaction_id}/cancel" in paths
