"""Redis is a doorbell: whoever reads and writes it costs time, and decides nothing."""

from __future__ import annotations

import asyncio
import base64
import json
import pickle
import time
import zlib
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import django_rq
import pytest
import rq.serializers
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
from redis import ConnectionError
from redis.asyncio import Redis

from a2a import polling
from approvals.slack.interactions import replies
from approvals.slack.interactions.commands import Click, Source, Tell, to_text
from approvals.slack.rendering.signed_values import ButtonValue
from approvals.web import live
from ledger import doorbell, redis_client
from ledger.states import State
from ledger.workers import jobs, queues
from tests import faults

pytestmark = pytest.mark.django_db(transaction=True)
DESK = "assent__group__desk.changed"


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


def plant(queue: str, data: bytes, **fields: str | bytes) -> str:
    """A job as an attacker writes it."""
    job_id, redis = str(uuid4()), doorbell.redis()
    hash_ = {
        "data": data,
        "origin": queue,
        "status": "queued",
        "created_at": "2026-01-01T00:00:00.000000Z",
        **fields,
    }
    redis.hset(f"rq:job:{job_id}", mapping=hash_)
    redis.rpush(f"rq:queue:{queue}", job_id)
    redis.sadd("rq:queues", f"rq:queue:{queue}")
    return job_id


def work(*names: str) -> None:
    queues.work(list(names) or ["commit"], burst=True)


HOSTILE = {
    "a pickle": lambda trap: pickle.dumps(Trap(trap)),
    "a packed pickle": lambda trap: zlib.compress(pickle.dumps(Trap(trap))),
    "another function": lambda trap: json.dumps(
        ["tests.ledger.test_redis.sprung", None, [str(trap)], {}]
    ).encode(),
    "our function, unsealed": lambda trap: json.dumps(
        ["ledger.workers.jobs.commit", None, [str(uuid4())], {}]
    ).encode(),
    "sealed for another queue": lambda trap: json.dumps(
        ["ledger.workers.jobs.commit", None, [queues.seal("compensate", str(uuid4()))], {}]
    ).encode(),
    "more than there is memory": lambda trap: zlib.compress(b" " * 100_000_000),
    "packed twice": lambda trap: zlib.compress(zlib.compress(b" " * 100_000_000)),
    "no end of brackets": lambda trap: b"[" * 50_000,
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
    said = [record for record in caplog.records if "not one of ours" in record.message]
    assert len(said) == 1


def test_names_beside_a_job_of_ours_are_not_run(approved):
    payment = approved()
    queue = django_rq.get_queue("commit")
    queue.empty()
    sealed = queues.seal("commit", str(payment.pk))
    name = "tests.ledger.test_redis.sprung"
    job_id = plant(
        "commit",
        zlib.compress(json.dumps(["ledger.workers.jobs.commit", None, [sealed], {}]).encode()),
        success_callback_name=name,
        failure_callback_name=name,
        stopped_callback_name=name,
        timeout="1",
        dependency_ids='["x"]',
        webhooks='[{"url": "http://127.0.0.1:1/", "events": ["finished"]}]',
    )

    job = queue.fetch_job(job_id)
    work("commit")

    payment.refresh_from_db()
    assert payment.state == State.COMMITTED
    assert (job.success_callback, job.failure_callback, job.stopped_callback) == (None, None, None)
    assert (job.timeout, job.webhooks, job._dependency_ids) == (queues.JOB_TIMEOUT_S, [], [])


def test_a_job_of_ours_in_another_queue_is_dropped(approved):
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


def test_what_was_sealed_long_ago_says_nothing_any_more(monkeypatch):
    sealed = queues.seal("commit", "x")
    monkeypatch.setattr("ledger.workers.sealing.SEALED_FOR_S", -1)

    with pytest.raises(queues.NotOurs):
        queues.unseal("commit", sealed)


def test_a_key_that_was_replaced_still_opens_what_it_sealed(settings):
    sealed = queues.seal("commit", "x")
    settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY]
    settings.SECRET_KEY = "another"

    assert queues.unseal("commit", sealed) == "x"
    settings.SECRET_KEY_FALLBACKS = []
    with pytest.raises(queues.NotOurs):
        queues.unseal("commit", sealed)


def test_a_forged_click_in_slack_decides_nothing(a_payment):
    payment = a_payment()
    button = ButtonValue("approve", str(payment.pk), payment.intent_digest, "T1", 1)
    forged = to_text(Click(source=Source(["x"], "T1", "U1"), button=button))
    plant(
        "react",
        json.dumps(
            ["approvals.slack.interactions.handle_click.handle", None, [forged], {}]
        ).encode(),
    )

    work("react")

    payment.refresh_from_db()
    assert (payment.state, payment.decisions.count()) == (State.PREPARED, 0)


def test_nothing_that_people_wrote_can_be_read_in_redis():
    secret = "because Ms Moreau is ill"
    tell = Tell(source=Source(["x"], "T1", "U1"), text=secret)
    replies.enqueue(tell)
    replies.enqueue(replace(tell, text="more", page=secret))

    assert django_rq.get_queue("respond").count == 2
    assert secret not in everything_in_redis()
    assert "Moreau" not in everything_in_redis()


def test_why_a_job_failed_is_not_kept_in_redis(monkeypatch):
    def fails(subject: str) -> None:
        raise ValueError("a secret of somebody")

    monkeypatch.setitem(queues.JOBS, "commit", fails)
    jobs.enqueue("commit", uuid4())

    work("commit")

    assert len(django_rq.get_queue("commit").failed_job_registry) == 1
    assert "a secret of somebody" not in everything_in_redis()


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
    bait = pickle.dumps(Trap(trap))
    job_id = plant(
        "commit",
        bait,
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
        "queues/0/",
        f"queues/0/{job_id}/",
        f"queues/0/{job_id}/results/1-1/",
    ]
    kinds = ("failed", "finished", "deferred", "scheduled", "started")
    paths += [f"queues/0/{kind}/" for kind in kinds]

    for path in paths:
        as_root.get(f"/admin/rq/{path}")
    for action in ("requeue", "enqueue", "stop", "delete"):
        as_root.post(f"/admin/rq/queues/0/{job_id}/{action}/")

    assert not trap.exists()


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
        await layer.group_add(live.GROUP, channel)
        for content in (forged, pickle.dumps([]), "gAAAA"):
            doorbell.redis().publish(DESK, content)
        await live._send({"acme": [("a", 7)]})
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
    monkeypatch.setattr(redis_client, "SILENT_S", 0.3)

    async def listen(redis_url: str, between: faults.Network) -> list[str]:
        heard = []
        async with Redis.from_url(redis_url) as redis, redis.pubsub() as subscription:
            await subscription.subscribe("bell")
            while not dict(doorbell.redis().pubsub_numsub("bell"))[b"bell"]:
                await asyncio.sleep(0.01)
            doorbell.redis().publish("bell", "first")
            with suppress(ConnectionError):
                async for message in redis_client.messages_of(subscription):
                    heard.append(message["data"].decode())
                    between.swallow()
        return heard

    with faults.network(settings.REDIS_URL) as (between, url):
        heard = asyncio.run(asyncio.wait_for(listen(url, between), 20))
        between.restore()

    assert heard == ["first"]


def test_whoever_listens_ends_when_it_is_cancelled(monkeypatch):
    """Also when many do at once, in each of the moments of a short while."""
    monkeypatch.setattr(redis_client, "SILENT_S", 0.01)

    async def listen() -> None:
        async with (
            redis_client.async_redis(settings.REDIS_URL) as redis,
            redis.pubsub() as subscription,
        ):
            await subscription.subscribe("bell")
            async for _ in redis_client.messages_of(subscription):
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
