"""What is answered without Django is answered as the views answer, and stored as they store it."""

from __future__ import annotations

import asyncio
import json
import random
import re
import threading
from collections import Counter
from typing import Any
from uuid import UUID, uuid4

import httpx
import psycopg
import pytest
from django.core.signals import request_started
from django.db import OperationalError, connection
from django.db.models.functions import Now
from hypothesis import (
    HealthCheck,
    example,
    given,
    settings as hypothesis_settings,
    strategies as st,
)

from approvals import asgi, wsgi
from approvals.http.admission import fast_path
from approvals.http.admission.pages import Pages
from ledger import execution
from ledger.api.http import TOKEN_IS_KNOWN
from ledger.foundation import doorbell
from ledger.foundation.lanes import Lane
from ledger.limits import stocks, terms
from ledger.models import Agent, AgentToken, Event, IdempotencyKey, Transaction
from ledger.principals import Surface
from ledger.proof.audit import verification
from ledger.transactions import coordinator
from ledger.transactions.prepare import admission, prepare
from tests.conftest import AgentClient
from tests.processes import running, until

pytestmark = pytest.mark.django_db(transaction=True)

# The same requests without the fast path.
views = Pages(wsgi.application, Lane("test", 2), largest_body=600_000, body_within_s=30)
TRANSACTIONS = "/api/v1/transactions"


def sent(application: Any, *requests: httpx.Request) -> list[httpx.Response]:
    """The responses to requests that are sent all at once."""

    async def send_all() -> list[httpx.Response]:
        transport = httpx.ASGITransport(application)
        async with httpx.AsyncClient(transport=transport) as http:
            return await asyncio.gather(*(http.send(request) for request in requests))

    return asyncio.run(send_all())


def request(
    client: AgentClient, method: str, path: str, body: Any = None, **headers: str
) -> httpx.Request:
    """``body`` is bytes, or sent as JSON."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.Request(
        method,
        f"http://localhost{path}",
        headers={"Authorization": f"Bearer {client.token}"} | named,
        **(
            {"content": body} if isinstance(body, bytes) else {} if body is None else {"json": body}
        ),
    )


def proposal(client: AgentClient, rocket: str = "", key: str = "", **members: Any) -> httpx.Request:
    """A proposal with a tool that needs no plan."""
    body = {"tool": "launch", "arguments": {"rocket": rocket or uuid4().hex}, **members}
    return request(client, "POST", TRANSACTIONS, body, idempotency_key=key or uuid4().hex)


def takes_the_fast_path(one: httpx.Request, *, is_known: bool = True) -> bool:
    scope = {
        "type": "http",
        "method": one.method,
        "path": one.url.path,
        "query_string": one.url.query,
        "headers": [(name.lower(), value) for name, value in one.headers.raw],
        "scheme": "http",
        TOKEN_IS_KNOWN: is_known,
    }
    return asyncio.run(fast_path.respond(scope, one.content)) is not None


@pytest.fixture
def twins(helpdesk, stranger, agent_client):
    """Agents of the same name in two tenants: one speaks to the fast path, one to the views."""
    stranger.name = helpdesk.name
    stranger.save()
    return agent_client(helpdesk), agent_client(stranger)


def compared(response: httpx.Response) -> tuple[int, dict[str, str], str]:
    """All of a response but what differs between two transactions of two tenants."""
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "ID", response.text)
    text = re.sub(r"[0-9a-f]{64}", "DIGEST", text).replace("globex", "acme")
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.+]+", "TIME", text)
    text = re.sub(r'"expires_in": [\d.]+', '"expires_in": N', text)
    headers = {
        name: re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "ID", value)
        for name, value in response.headers.items()
    }
    headers.pop("request-id", None)  # of the server, whichever way it takes
    length = headers.pop("content-length", None)
    assert length in {None, str(len(response.content))}
    headers["has length"] = str(length is not None)
    if "etag" in headers:
        headers["etag"] = "ETAG"
    return response.status_code, headers, text


def test_a_proposal_is_answered_and_stored_as_the_view_does(twins):
    fast, slow = twins
    members = {"reason": "Zoë asked", "run_id": "run 1", "step_id": "2"}

    assert takes_the_fast_path(proposal(fast, **members))
    (by_fast,) = sent(asgi.application, proposal(fast, "r-1", "k1", **members))
    (by_view,) = sent(views, proposal(slow, "r-1", "k1", **members))

    assert by_fast.status_code == 201
    assert compared(by_fast) == compared(by_view)
    fast_row, slow_row = (
        Transaction.objects.get(pk=answer.json()["transaction_id"]) for answer in (by_fast, by_view)
    )
    for field in Transaction._meta.concrete_fields:
        pair = [
            str(getattr(row, field.attname)).replace("globex", "acme")
            for row in (fast_row, slow_row)
        ]
        if field.name not in {"id", "intent_digest", "created_at", "expires_at", "retain_until"}:
            assert pair[0] == pair[1], field.name
    assert fast_row.is_untouched


def test_the_usual_requests_do_not_reach_django(as_helpdesk):
    began: list[Any] = []

    def on_request(**_: Any) -> None:
        began.append(True)

    request_started.connect(on_request)
    try:
        (made,) = sent(asgi.application, proposal(as_helpdesk))
        path = f"{TRANSACTIONS}/{made.json()['transaction_id']}"
        (read,) = sent(asgi.application, request(as_helpdesk, "GET", path))
        assert (made.status_code, read.status_code, began) == (201, 200, [])
        poll = request(as_helpdesk, "GET", f"{path}?wait=30", if_none_match='"older"')
        (polled,) = sent(asgi.application, poll)
        assert (polled.status_code, began) == (200, [])
        sent(asgi.application, request(as_helpdesk, "GET", TRANSACTIONS))
    finally:
        request_started.disconnect(on_request)

    assert began == [True]


def in_state(state: str, row: Transaction, *people: Any) -> None:
    """Bring a new transaction of ``scuttle``, which takes two approvers, into a state."""
    if state == "half approved":
        coordinator.approve(row.pk, digest=row.intent_digest, by=people[0], via=Surface.WEB)
    elif state == "approved":
        for person in people:
            coordinator.approve(row.pk, digest=row.intent_digest, by=person, via=Surface.WEB)
    elif state == "rejected":
        rejection = {"digest": row.intent_digest, "by": people[0], "via": Surface.WEB}
        coordinator.reject(row.pk, reason="Not „today“", **rejection)


@pytest.mark.parametrize("state", ["prepared", "half approved", "approved", "rejected"])
def test_a_transaction_is_read_as_the_view_reads_it(twins, alice, bob, state):
    paths = []
    for client in twins:
        (answer,) = sent(views, proposal(client, "Ω-1", "k1", tool="scuttle"))
        row = Transaction.objects.get(pk=answer.json()["transaction_id"])
        in_state(state, row, alice, bob)
        paths.append(f"{TRANSACTIONS}/{row.pk}")
    fast, slow = twins

    assert takes_the_fast_path(request(fast, "GET", paths[0]))
    doorbell.redis().flushdb()  # that was a poll
    (by_fast,) = sent(asgi.application, request(fast, "GET", paths[0]))
    (by_view,) = sent(views, request(slow, "GET", paths[1]))

    assert by_fast.status_code == 200
    assert compared(by_fast) == compared(by_view)
    etag = by_fast.headers["etag"]
    for known in (etag, f"W/{etag}", '"another"'):
        doorbell.redis().flushdb()
        (again_fast,) = sent(asgi.application, request(fast, "GET", paths[0], if_none_match=known))
        (again_view,) = sent(views, request(fast, "GET", paths[0], if_none_match=known))
        assert compared(again_fast) == compared(again_view)
        assert again_fast.headers["etag"] == again_view.headers["etag"] == etag


def test_polling_too_fast_is_counted_over_both_ways_and_refused_alike(as_helpdesk):
    (answer,) = sent(asgi.application, proposal(as_helpdesk))
    path = f"{TRANSACTIONS}/{answer.json()['transaction_id']}"
    ask = request(as_helpdesk, "GET", path)

    polls = sent(asgi.application, *[ask] * 3) + sent(views, *[ask] * 3)
    (by_fast,), (by_view,) = sent(asgi.application, ask), sent(views, ask)

    assert sorted(poll.status_code for poll in polls) == [200] * 4 + [429] * 2
    assert by_fast.status_code == 429
    assert compared(by_fast) == compared(by_view)


def test_what_has_ended_is_read_by_both_ways_as_often_as_one_likes(as_helpdesk):
    (answer,) = sent(asgi.application, proposal(as_helpdesk))
    path = f"{TRANSACTIONS}/{answer.json()['transaction_id']}"
    as_helpdesk.post(f"{path.removeprefix('/api/v1')}/cancel")
    execution.roll_back(Transaction.objects.get().pk)
    ask = request(as_helpdesk, "GET", path)

    polls = sent(asgi.application, *[ask] * 6) + sent(views, *[ask] * 2)

    assert {poll.status_code for poll in polls} == {200}
    assert compared(polls[5]) == compared(polls[-1])


TEXTS = st.text(max_size=12)
JSONS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=4,
)
MEMBERS = st.fixed_dictionaries(
    {},
    optional={
        "tool": st.sampled_from(["launch", "pay", "write_note", "nothing", "x" * 101, 7]),
        "arguments": st.fixed_dictionaries({"rocket": TEXTS | JSONS}) | JSONS,
        "reason": TEXTS | st.just("x" * 2001) | JSONS,
        "run_id": TEXTS | st.just("x" * 201) | JSONS,
        "step_id": TEXTS | JSONS,
        "ttl_s": st.sampled_from([60, 0, -1, "60", 10**9, None, True, 1.5]),
        "more": JSONS,
    },
)
HEADERS = st.fixed_dictionaries(
    {},
    optional={
        "Idempotency-Key": st.sampled_from(["k", '"k"', "", "x" * 256, "é", '"', "a\tb"]),
        "traceparent": st.sampled_from([f"00-{'a' * 32}-{'b' * 16}-01", "00-x", ""]),
        "Content-Type": st.sampled_from(["application/json", "text/plain", "application/jsonx"]),
        "Authorization": st.sampled_from(["Basic x", "Bearer", "Bearer nobody", "bearer", ""]),
        "Host": st.sampled_from(["localhost:8000", "elsewhere.example", "", "a b"]),
        "X-Forwarded-Proto": st.sampled_from(["https", "http", "https,http", "x"]),
    },
)
USUAL = {"tool": "launch", "arguments": {"rocket": "r"}}


@hypothesis_settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(members=MEMBERS, headers=HEADERS, text=st.none() | st.binary(max_size=30))
@example(members=USUAL, headers={"Idempotency-Key": "k"}, text=None)
@example(members=USUAL, headers={}, text=b'{"tool": "launch", "tool": "launch"}')
@example(members=USUAL | {"arguments": {"rocket": "\ud800"}}, headers={}, text=None)
@example(members=USUAL | {"reason": "\u202e"}, headers={"Idempotency-Key": "k"}, text=None)
@example(members=USUAL | {"arguments": {"rocket": "x" * 300_000}}, headers={}, text=None)
def test_every_request_is_answered_as_the_view_answers_it(twins, members, headers, text):
    """``text`` is sent in place of the members."""
    body = json.dumps({**USUAL, **members}).encode() if text is None else text
    answers = []
    for application, client in zip((asgi.application, views), twins, strict=True):
        named = {
            "Host": "localhost",
            "Content-Type": "application/json",
            "Authorization": f"Bearer {client.token}",
            "Idempotency-Key": uuid4().hex,
            **headers,
        }
        raw = [(name, value.encode("latin-1")) for name, value in named.items()]
        one = httpx.Request("POST", f"http://localhost{TRANSACTIONS}", headers=raw, content=body)
        answers.append(compared(sent(application, one)[0]))

    assert answers[0] == answers[1]
    counts = {"acme": 0, "globex": 0}
    for tenant in Transaction.objects.values_list("tenant", flat=True):
        counts[tenant] += 1
    assert counts["acme"] == counts["globex"]


# --- many at once ---------------------------------------------------------------------------------


def test_of_many_at_once_each_gets_its_own_answer_and_all_is_sealed(as_helpdesk):
    asked = [proposal(as_helpdesk, f"r-{number}", f"k-{number}") for number in range(60)]

    answers = sent(asgi.application, *asked)

    assert {answer.status_code for answer in answers} == {201}
    rows = {row.pk: row for row in Transaction.objects.all()}
    for number, answer in enumerate(answers):
        row = rows[UUID(answer.json()["transaction_id"])]
        assert row.arguments == {"rocket": f"r-{number}"}
        assert row.is_untouched
        key = IdempotencyKey.objects.get(key=f"k-{number}")
        assert (key.transaction_id, key.answer) == (row.pk, answer.text)
        event = Event.objects.get(subject=row.pk)
        assert (event.seq, event.kind, event.to_state) == (1, "prepared", "prepared")
    assert verification.verify().transactions == 60


def test_requests_that_exclude_each_other_in_one_batch_make_one_transaction(as_helpdesk):
    same_key = [proposal(as_helpdesk, "r-1", "k-1") for _ in range(5)]
    same_operation = [proposal(as_helpdesk, "r-2", f"o-{number}") for number in range(5)]
    other_input = [proposal(as_helpdesk, "r-1", "k-1", reason=f"{number}") for number in range(5)]
    others = [proposal(as_helpdesk) for _ in range(10)]

    answers = sent(asgi.application, *same_key, *same_operation, *other_input, *others)

    assert [answer.status_code for answer in answers[-10:]] == [201] * 10
    statuses = {answer.status_code for answer in answers[:-10]}
    assert statuses <= {200, 201, 409, 422}
    assert Transaction.objects.count() == 12
    for asked in (*same_key, *same_operation):
        sent(views, asked)  # from now on there is an answer under this key
        (again,), (view,) = sent(asgi.application, asked), sent(views, asked)
        assert compared(again) == compared(view)
        assert again.status_code in {200, 201}


def test_a_cap_holds_for_many_at_once(as_helpdesk, helpdesk):
    Agent.objects.filter(pk=helpdesk.pk).update(limits={"pending": 5})
    terms.forget()
    stocks.pending.forget()
    sent(asgi.application, proposal(as_helpdesk))

    answers = sent(asgi.application, *(proposal(as_helpdesk) for _ in range(60)))

    assert Counter(answer.status_code for answer in answers) == {201: 4, 429: 56}
    assert Transaction.objects.count() == 5


def test_a_request_that_is_refused_harms_no_other_of_its_batch(as_helpdesk, stranger, agent_client):
    good = [proposal(as_helpdesk) for _ in range(5)]
    bad = [
        proposal(as_helpdesk, "\u200b"),
        proposal(as_helpdesk, key=" " * 300),
        proposal(as_helpdesk, arguments={"wrong": 1}),
        proposal(agent_client(stranger, ["read_all"])),
        request(
            as_helpdesk, "POST", TRANSACTIONS, {"tool": "launch", "arguments": {"rocket": "x"}}
        ),
    ]

    answers = sent(asgi.application, *good, *bad)

    assert [answer.status_code for answer in answers] == [201] * 5 + [422, 400, 422, 403, 400]
    assert Transaction.objects.count() == 5


def test_a_tool_whose_own_code_fails_keeps_no_other_proposal_from_its_batch(as_helpdesk):
    from ledger.api.fast.batched_prepare import NewProposal, prepares

    token_hash = AgentToken.hash_of(as_helpdesk.token)
    new = [
        NewProposal(coordinator.Proposal("launch", {"rocket": rocket}), uuid4().hex, token_hash)
        for rocket in ("Ariane", "explodes", "Vega")
    ]

    async def ask_all() -> list[Any]:
        return await asyncio.gather(*(prepares.ask(one) for one in new))

    first, failed, last = asyncio.run(ask_all())

    assert (first.status, failed, last.status) == (201, None, 201)


def test_what_a_stranger_sends_and_what_is_large_is_not_parsed_on_the_event_loop(as_helpdesk):
    reason = "x" * 1_000
    assert takes_the_fast_path(proposal(as_helpdesk, reason=reason))
    assert not takes_the_fast_path(proposal(as_helpdesk), is_known=False)
    body = {"tool": "launch", "arguments": {"rocket": "Vega"}}
    for spaces, is_small in ((16_000, True), (16_384, False)):
        text = json.dumps(body).encode() + b" " * spaces
        headers = {"content_type": "application/json", "idempotency_key": uuid4().hex}
        sized = request(as_helpdesk, "POST", TRANSACTIONS, text, **headers)
        assert takes_the_fast_path(sized) is is_small


def test_a_revoked_token_is_refused_in_the_next_request(as_helpdesk):
    (made,) = sent(asgi.application, proposal(as_helpdesk))
    path = f"{TRANSACTIONS}/{made.json()['transaction_id']}"
    assert sent(asgi.application, request(as_helpdesk, "GET", path))[0].status_code == 200

    AgentToken.objects.update(revoked_at=Now())

    answers = sent(asgi.application, proposal(as_helpdesk), request(as_helpdesk, "GET", path))
    assert [answer.status_code for answer in answers] == [401, 401]


def test_a_tool_that_is_taken_from_an_agent_is_unknown_to_its_next_request(as_helpdesk, helpdesk):
    assert sent(asgi.application, proposal(as_helpdesk))[0].status_code == 201

    Agent.objects.filter(pk=helpdesk.pk).update(tools=["pay"])

    assert sent(asgi.application, proposal(as_helpdesk))[0].status_code == 404


def test_an_operation_with_a_late_receipt_is_held_on_both_ways(as_helpdesk):
    (made,) = sent(asgi.application, proposal(as_helpdesk, "r-1"))
    row = Transaction.objects.get(pk=made.json()["transaction_id"])
    Transaction.objects.filter(pk=row.pk).update(state="aborted", late_receipt="r-7")

    (by_fast,) = sent(asgi.application, proposal(as_helpdesk, "r-1"))
    (by_view,) = sent(views, proposal(as_helpdesk, "r-1"))

    assert by_fast.status_code == 409
    assert compared(by_fast) == compared(by_view)


def test_a_request_whose_key_is_being_prepared_elsewhere_is_told_to_come_back(as_helpdesk):
    by = str(as_helpdesk.agent.principal)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s)", [admission.lock_of(by, "prepare", "k-1")])
        answers = sent(asgi.application, proposal(as_helpdesk, "r-1", "k-1"), proposal(as_helpdesk))
        cursor.execute("SELECT pg_advisory_unlock_all()")

    assert [answer.status_code for answer in answers] == [409, 201]
    assert answers[0].json()["code"] == "request_in_progress"


def test_no_batch_waits_for_a_plan(as_helpdesk, the_world):
    is_planning, may_go_on = threading.Event(), threading.Event()

    def plan() -> None:
        is_planning.set()
        may_go_on.wait(20)

    the_world.planning = plan
    slow = request(
        as_helpdesk,
        "POST",
        TRANSACTIONS,
        {"tool": "pay", "arguments": {"reference": "o1", "amount": "1"}},
        idempotency_key="slow",
    )

    async def story() -> list[int]:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(asgi.application)) as http:
            planned = asyncio.create_task(http.send(slow))
            await asyncio.to_thread(is_planning.wait, 20)
            quick = [await http.send(proposal(as_helpdesk)) for _ in range(3)]
            may_go_on.set()
            return [answer.status_code for answer in (*quick, await planned)]

    assert asyncio.run(story()) == [201] * 4


def test_who_leaves_takes_nobody_along(as_helpdesk):
    async def story() -> list[int]:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(asgi.application)) as http:
            tasks = [asyncio.create_task(http.send(proposal(as_helpdesk))) for _ in range(10)]
            await asyncio.sleep(0)
            for task in tasks[::2]:
                task.cancel()
            return [(await task).status_code for task in tasks[1::2]]

    assert asyncio.run(story()) == [201] * 5


def test_a_session_that_ends_in_the_middle_of_a_batch_leaves_each_request_done_once(as_helpdesk):
    asked = [proposal(as_helpdesk, f"r-{number}", f"k-{number}") for number in range(5)]

    async def story() -> list[httpx.Response]:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(asgi.application)) as http:
            tasks = [asyncio.create_task(http.send(one)) for one in asked]
            await asyncio.to_thread(until, lambda: _terminate_who_waits(watcher), 20)
            blocker.rollback()
            return [await task for task in tasks]

    with (
        psycopg.connect(**_dsn()) as blocker,
        psycopg.connect(**_dsn(), autocommit=True) as watcher,
    ):
        blocker.execute("LOCK TABLE ledger_event IN EXCLUSIVE MODE")
        answers = asyncio.run(story())

    assert {answer.status_code for answer in answers} == {201}
    assert (Transaction.objects.count(), Event.objects.count()) == (5, 5)
    again = sent(asgi.application, *asked)
    assert [answer.headers["idempotent-replayed"] for answer in again] == ["true"] * 5


@pytest.mark.parametrize("failure", [OperationalError("lost"), RuntimeError("a bug")])
def test_a_proposal_whose_answer_was_lost_is_never_said_to_be_undone(
    as_helpdesk, monkeypatch, failure
):
    one = proposal(as_helpdesk)
    sent(asgi.application, proposal(as_helpdesk))  # so that the token is known
    insert_all = prepare.insert_all

    def lost(*batch: Any) -> None:
        insert_all(*batch)
        raise failure

    with monkeypatch.context() as patch:
        patch.setattr(prepare, "insert_all", lost)
        patch.setattr(asgi.proposals, "_lane", Lane("test", 0, most_waiting=0))
        (answer,) = sent(asgi.application, one)
    (again,) = sent(asgi.application, one)

    assert answer.status_code == 503
    assert "It is not known whether anything was changed." in answer.json()["detail"]
    assert "the same Idempotency-Key" in answer.json()["hint"]
    assert answer.headers["retry-after"]
    assert (again.status_code, again.headers["idempotent-replayed"]) == (201, "true")
    assert Transaction.objects.count() == 2


def _terminate_who_waits(watcher: psycopg.Connection[Any]) -> bool:
    """End the session that waits for the lock; false while none does."""
    ended = watcher.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND wait_event_type = 'Lock'"
        " AND pid <> pg_backend_pid()"
    )
    return ended.rowcount > 0


def _dsn() -> dict[str, Any]:
    names = ("dbname", "user", "password", "host", "port")
    parameters = connection.get_connection_params()
    return {name: parameters[name] for name in names if parameters.get(name)}


@pytest.mark.slow
def test_two_processes_prepare_each_operation_once_whatever_comes_twice(as_helpdesk):
    repeated = [(f"r-{n}", f"k-{n}", "same") for n in range(40)] * 4
    operations = [(f"o-{n % 20}", f"p-{n}", "same") for n in range(80)]
    reused = [(f"q-{n}", f"u-{n % 20}", "same") for n in range(60)]
    asked = [*repeated, *operations, *reused]
    random.Random(7).shuffle(asked)

    async def settled(http: httpx.AsyncClient, port: int, what: tuple[str, ...]) -> httpx.Response:
        """The answer once no other request with the key or operation is in progress."""
        one = proposal(as_helpdesk, what[0], what[1], reason=what[2])
        one = httpx.Request(
            "POST",
            f"http://localhost:{port}{TRANSACTIONS}",
            headers=one.headers,
            content=one.content,
        )
        while (answer := await http.send(one)).status_code == 409:
            assert answer.json()["code"] == "request_in_progress", answer.text
        return answer

    async def story(ports: list[int]) -> list[httpx.Response]:
        limits = httpx.Limits(max_connections=40)
        async with httpx.AsyncClient(limits=limits, timeout=60) as http:
            sends = (settled(http, ports[n % 2], what) for n, what in enumerate(asked))
            return await asyncio.gather(*sends)

    with running("web") as one, running("web") as other:
        answers = asyncio.run(story([one.web_port, other.web_port]))

    ids: dict[str, set[str]] = {}
    for (rocket, _, _), answer in zip(asked, answers, strict=True):
        if answer.status_code != 422:
            ids.setdefault(rocket, set()).add(answer.json()["transaction_id"])
    assert {answer.status_code for answer in answers} <= {200, 201, 422}
    assert all(len(same) == 1 for same in ids.values())
    assert sum(rocket.startswith("q-") for rocket in ids) == 20, "of one key one input counts"
    assert Transaction.objects.count() == Event.objects.count() == len(ids) == 80
    assert verification.verify().transactions == 80
