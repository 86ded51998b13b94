"""Redis is a doorbell: whoever reads and writes it costs time, and decides nothing."""

from __future__ import annotations

import asyncio
import base64
import json
import pickle
import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import django_rq
import pytest
import rq.serializers
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
from django_rq.settings import get_queues_map
from redis import ConnectionError
from redis.asyncio import Redis
from rq.job import Job

from a2a import polling
from approvals.models import SlackCommand
from approvals.slack.interactions import replies
from approvals.slack.interactions.commands import Click, Source, Tell, to_text
from approvals.slack.rendering.signed_values import ButtonValue
from approvals.web import live, ringing
from ledger.foundation import doorbell, redis_connections
from ledger.models import Event, Transaction
from ledger.states import State
from ledger.workers import jobs, queues
from tests import faults

pytestmark = pytest.mark.django_db(transaction=True)
DESK = "assent__group__desk.changed"
COMMIT = f"queues/{get_queues_map()['commit']}"  # of RQ's pages


class Trap:
    """Pickled; touches the file as soon as anybody unpickles it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, tuple[Path]]:
        return Path.touch, (self.path,)


def sprung(*args: Any) -> None:
    """What hostile names in Redis lead to."""
    raise SystemExit("a name in Redis was run")


@pytest.fixture
def trap(tmp_path: Path) -> Path:
    return tmp_path / "sprung"


def plant(queue: str, job_id: bytes | str, **fields: str | bytes) -> None:
    """An id, and beside it a record of a job, as an attacker writes them."""
    redis = doorbell.redis()
    redis.rpush(f"rq:queue:{queue}", job_id)
    redis.sadd("rq:queues", f"rq:queue:{queue}")
    if fields:
        record = {"origin": queue, "status": "queued", "created_at": "2026-01-01T00:00:00.0Z"}
        redis.hset(f"rq:job:{job_id}", mapping={**record, **fields})


def work(*names: str) -> None:
    queues.work_off(list(names) or ["commit"])


HOSTILE = {
    "a pickle": lambda trap: pickle.dumps(Trap(trap)),
    "a packed pickle": lambda trap: zlib.compress(pickle.dumps(Trap(trap))),
    "a function": lambda trap: b"tests.ledger.test_redis.sprung",
    "a job of RQ": lambda trap: json.dumps(
        ["tests.ledger.test_redis.sprung", None, [str(trap)], {}]
    ).encode(),
    "an id of another queue": lambda trap: b"1",
    "an id written otherwise": lambda trap: f"{{{uuid4()}}}".encode(),
    "more than an id": lambda trap: f"{uuid4()}:{uuid4()}".encode(),
    "no end of brackets": lambda trap: b"[" * 50_000,
    "no text": lambda trap: b"\xff\xfe",
    "nothing": lambda trap: b"",
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_job_is_dropped_with_one_line_and_the_next_is_done(what, trap, approved, caplog):
    payment = approved()
    caplog.set_level("WARNING")
    django_rq.get_queue("commit").empty()
    plant("commit", HOSTILE[what](trap))
    jobs.enqueue("commit", payment.pk)

    work("commit")

    assert not trap.exists()
    payment.refresh_from_db()
    assert payment.state == State.COMMITTED
    lines = [record for record in caplog.records if "not one of ours" in record.message]
    assert len(lines) == 1
    assert len(lines[0].message) < 200


def test_a_job_in_redis_is_an_id_and_nothing_else(approved):
    payment = approved()
    doorbell.redis().flushdb()
    jobs.enqueue("commit", payment.pk)

    assert doorbell.redis().keys() == [b"rq:queue:commit"]
    # The approval may have enqueued a job of its own by now.
    assert set(doorbell.redis().lrange("rq:queue:commit", 0, -1)) == {str(payment.pk).encode()}


NAME = "tests.ledger.test_redis.sprung"
HOSTILE_RECORD: dict[str, Any] = {
    "data": json.dumps([NAME, None, ["x"], {}]),
    "success_callback_name": NAME,
    "failure_callback_name": NAME,
    "stopped_callback_name": NAME,
    "timeout": "1",
    "retries_left": "5",
    "dependency_ids": '["x"]',
    "webhooks": '[{"url": "http://127.0.0.1:1/", "events": ["finished"]}]',
}


def test_a_record_beside_an_id_of_ours_is_not_read(approved):
    payment = approved()
    queue = django_rq.get_queue("commit")
    queue.empty()
    plant("commit", str(payment.pk), **HOSTILE_RECORD)

    work("commit")

    payment.refresh_from_db()
    assert payment.state == State.COMMITTED


def test_rqs_own_pages_read_no_code_in_a_record():
    job_id = str(uuid4())
    plant("commit", job_id, **HOSTILE_RECORD)
    job = Job.fetch(job_id, connection=doorbell.redis())

    assert (job.func_name, list(job.args)) == ("commit", [job_id])
    assert (job.success_callback, job.failure_callback, job.stopped_callback) == (None, None, None)
    assert (job.timeout, job.webhooks, job._dependency_ids) == (None, [], [])
    assert job.retries_left is None


@pytest.mark.parametrize("path", ["", "stats.json", f"{COMMIT}/details/", f"{COMMIT}/started/"])
def test_rqs_own_pages_run_no_callback_of_a_job_that_seems_abandoned(path, as_root):
    """RQ cleans up such jobs while it counts them."""
    job_id = str(uuid4())
    plant("commit", job_id, **HOSTILE_RECORD)
    doorbell.redis().zadd("rq:wip:commit", {f"{job_id}:execution": 1})

    assert as_root.get(f"/admin/rq/{path}").status_code == 200


@pytest.mark.parametrize("name", sorted(queues.JOBS))
def test_an_id_for_which_nothing_is_due_changes_nothing(name, a_payment, approved, failed_jobs):
    """In each queue, whatever it is the id of, and if there is no such row."""
    rows = [a_payment()] if name == "commit" else [a_payment(), approved()]
    states = [State.PREPARED, State.APPROVED][: len(rows)]
    is_uuid = queues.JOBS[name][1] is UUID
    before = list(Event.objects.order_by("pk").values_list("pk", flat=True))
    for job_id in [uuid4(), *(row.pk for row in rows)] if is_uuid else [0, 1, 2**70]:
        plant(name, str(job_id))

    work(name)

    assert [Transaction.objects.get(pk=row.pk).state for row in rows] == states
    assert list(Event.objects.order_by("pk").values_list("pk", flat=True)) == before
    assert failed_jobs() == []


@pytest.fixture
def failed_jobs() -> Callable[[], list[str]]:
    return lambda: [
        job_id
        for name in settings.RQ_QUEUES
        for job_id in django_rq.get_queue(name).failed_job_registry.get_job_ids()
    ]


def test_jobs_of_ours_in_another_queue_do_nothing(approved):
    payment = approved()
    redis, queue = doorbell.redis(), django_rq.get_queue("commit")
    queue.empty()
    jobs.enqueue("commit", payment.pk)
    redis.rename("rq:queue:commit", "rq:queue:roll_back")

    work("roll_back")

    payment.refresh_from_db()
    assert payment.state == State.APPROVED


def test_workers_take_no_orders_to_pause(approved):
    payment = approved()
    doorbell.redis().set("rq:suspended", 1)
    jobs.enqueue("commit", payment.pk)

    work("commit")

    payment.refresh_from_db()
    assert payment.state == State.COMMITTED


def test_a_forged_click_in_slack_decides_nothing(a_payment):
    payment = a_payment()
    button = ButtonValue("approve", str(payment.pk), payment.intent_digest, "T1", 1)
    click = Click(source=Source(["x"], "T1", "U1"), button=button)
    plant("react", to_text(click))
    plant("react", click.id, data=to_text(click))

    work("react")

    payment.refresh_from_db()
    assert (payment.state, payment.decisions.count()) == (State.PREPARED, 0)


def test_a_reply_is_no_click(a_payment):
    tell = Tell(source=Source(["x"], "T1", "U1"), text="x")
    replies.enqueue(tell)
    plant("react", tell.id)

    work("react")

    assert SlackCommand.objects.get().tries == 0


def test_nothing_that_people_wrote_can_be_read_in_redis():
    secret = "because Ms Moreau is ill"
    tell = Tell(source=Source(["x"], "T1", "U1"), text=secret)
    replies.enqueue(tell)
    replies.enqueue(replace(tell, id=str(uuid4()), text="more", page=secret))

    assert django_rq.get_queue("respond").count == 2
    assert secret not in everything_in_redis()
    assert "Moreau" not in everything_in_redis()


def test_why_a_job_failed_is_not_kept_in_redis(monkeypatch, as_root):
    def fails(subject: str) -> None:
        raise ValueError("a secret of somebody")

    monkeypatch.setitem(queues.JOBS, "commit", (fails, str))
    job_id = str(uuid4())
    jobs.enqueue("commit", job_id)

    work("commit")

    assert len(django_rq.get_queue("commit").failed_job_registry) == 1
    assert "a secret of somebody" not in everything_in_redis()
    assert job_id in as_root.get(f"/admin/rq/{COMMIT}/failed/").content.decode()
    assert as_root.get(f"/admin/rq/{COMMIT}/{job_id}/").status_code == 200
    result = Job.fetch(job_id, connection=doorbell.redis()).latest_result()
    assert result.exc_string == "ValueError: see the worker's log"


def everything_in_redis() -> str:
    redis = doorbell.redis()
    read = {
        "string": redis.get,
        "hash": redis.hgetall,
        "list": lambda key: redis.lrange(key, 0, -1),
        "set": redis.smembers,
        "zset": lambda key: redis.zrange(key, 0, -1),
        "stream": redis.xrange,
    }
    found = []
    for key in redis.scan_iter():
        value = read[redis.type(key).decode()](key)
        found.append(f"{key} {value}")
        packed = value.values() if isinstance(value, dict) else []
        found += [str(zlib.decompress(field)) for field in packed if field[:1] == b"\x78"]
    return "\n".join(found)


@pytest.fixture
def as_root() -> Client:
    client = Client(raise_request_exception=False)
    client.force_login(User.objects.create_superuser("root"))
    return client


def test_the_pages_of_the_queues_run_nothing_that_lies_in_redis(as_root, trap):
    bait, job_id = pickle.dumps(Trap(trap)), str(uuid4())
    plant(
        "commit",
        job_id,
        data=bait,
        result=bait,
        meta=bait,
        exc_info=b"x",
        failure_callback_name="tests.ledger.test_redis.sprung",
    )
    redis = doorbell.redis()
    redis.xadd(
        f"rq:results:{job_id}",
        {"type": "1", "created_at": "1767225600", "return_value": base64.b64encode(bait)},
        id="1-1",
    )
    for registry in ("failed", "finished", "deferred", "scheduled", "wip"):
        redis.zadd(f"rq:{registry}:commit", {job_id: 1})
    paths = [
        "",
        "stats.json",
        f"{COMMIT}/",
        f"{COMMIT}/{job_id}/",
        f"{COMMIT}/{job_id}/results/1-1/",
    ]
    kinds = ("failed", "finished", "deferred", "scheduled", "started")
    paths += [f"{COMMIT}/{kind}/" for kind in kinds]

    for path in paths:
        as_root.get(f"/admin/rq/{path}")
    for action in ("requeue", "enqueue", "stop", "delete"):
        as_root.post(f"/admin/rq/{COMMIT}/{job_id}/{action}/")

    assert not trap.exists()


def test_the_pages_of_the_queues_list_empty_and_requeue(as_root, monkeypatch):
    def fails(subject: str) -> None:
        raise ValueError("x")

    waiting, failing = str(uuid4()), str(uuid4())
    queue = django_rq.get_queue("commit")
    jobs.enqueue("commit", failing)
    monkeypatch.setitem(queues.JOBS, "commit", (fails, str))
    work("commit")
    jobs.enqueue("commit", waiting)

    assert waiting in as_root.get(f"/admin/rq/{COMMIT}/").content.decode()
    for path in ("", "stats.json", f"{COMMIT}/details/"):
        assert as_root.get(f"/admin/rq/{path}").status_code == 200
    as_root.post(f"/admin/rq/{COMMIT}/{failing}/requeue/", {"requeue": "x"})
    assert queue.get_job_ids() == [waiting, failing]
    as_root.post(f"/admin/rq/{COMMIT}/empty/")
    assert queue.count == 0


def test_whatever_names_no_serializer_does_not_unpickle(trap):
    for name in (None, "pickle", "rq.serializers.DefaultSerializer"):
        with pytest.raises(UnicodeDecodeError):
            rq.serializers.resolve_serializer(name).loads(pickle.dumps(Trap(trap)))
    assert not trap.exists()


def test_a_forged_bell_of_the_desk_is_dropped_and_the_next_one_heard():
    forged = json.dumps({"type": "desk.changed", "tenant": "acme", "events": [1], "changed": []})

    async def listen() -> list[Any]:
        layer = live.get_channel_layer()
        channel = await layer.new_channel()
        await layer.group_add(ringing.GROUP, channel)
        for content in (forged, pickle.dumps([]), "gAAAA"):
            doorbell.redis().publish(DESK, content)
        await ringing._send({"acme": [("a", 7)]})
        heard = [await asyncio.wait_for(live._message(layer, channel), 5) for _ in range(4)]
        await layer.flush()
        return heard

    *dropped, genuine = asyncio.run(listen())

    assert dropped == [None, None, None]
    assert genuine["events"] == [7]


def test_junk_in_the_counters_breaks_no_page(as_olga):
    minute = int(time.time()) // 60
    for back in (0, 1):
        doorbell.redis().hset(f"{polling.READS}:{minute - back}", "acme", "many")

    assert polling.recent_reads(5, None) is None
    assert as_olga.get("/ops/").status_code == 200


def test_a_subscription_whose_connection_broke_without_a_word_ends(monkeypatch):
    """Or a courier would never hear the doorbell again."""
    monkeypatch.setattr(redis_connections, "SILENT_S", 0.3)

    async def listen(redis_url: str, between: faults.Network) -> list[str]:
        heard = []
        async with Redis.from_url(redis_url) as redis, redis.pubsub() as subscription:
            await subscription.subscribe("bell")
            while not dict(doorbell.redis().pubsub_numsub("bell"))[b"bell"]:
                await asyncio.sleep(0.01)
            doorbell.redis().publish("bell", "first")
            with suppress(ConnectionError):
                async for message in redis_connections.messages_of(subscription):
                    heard.append(message["data"].decode())
                    between.swallow()
        return heard

    with faults.network(settings.REDIS_URL) as (between, url):
        heard = asyncio.run(asyncio.wait_for(listen(url, between), 20))
        between.restore()

    assert heard == ["first"]


def test_whoever_listens_ends_when_it_is_cancelled(monkeypatch):
    """Also when many do at once, in each of the moments of a short while."""
    monkeypatch.setattr(redis_connections, "SILENT_S", 0.01)

    async def listen() -> None:
        async with (
            redis_connections.async_redis(settings.REDIS_URL) as redis,
            redis.pubsub() as subscription,
        ):
            await subscription.subscribe("bell")
            async for _ in redis_connections.messages_of(subscription):
                raise AssertionError("nobody rings")

    async def cancel_at_any_moment() -> int:
        tasks = []
        for number in range(200):
            tasks.append(asyncio.create_task(listen()))
            await asyncio.sleep(0.002 + 0.0002 * (number % 100))
            tasks[-1].cancel()
        _, going_on = await asyncio.wait(tasks, timeout=5)
        for task in going_on:
            task.cancel()
        return len(going_on)

    assert asyncio.run(cancel_at_any_moment()) == 0
