"""Push notifications: signed, with the client's token, tried again, never to private addresses."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
import pytest
from django.utils import timezone

from a2a import tasks
from a2a.cards import signatures
from a2a.models import PushConfig, Task
from ledger.events import outbox
from ledger.models import Delivery, Scope
from tests.a2a.test_protocol import Peer
from tests.agents_at_work import GOOD_INPUT

pytestmark = pytest.mark.django_db(transaction=True)


class Receiver:
    """A client's server: keeps what it is sent, answers as it is told."""

    def __init__(self) -> None:
        self.requests: list[tuple[dict[str, str], bytes]] = []
        self.status = 204
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.requests.append(({k.lower(): v for k, v in self.headers.items()}, body))
                self.send_response(receiver.status)
                self.end_headers()

            def log_message(self, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/news"


@pytest.fixture
def receiver(settings: Any) -> Iterator[Receiver]:
    settings.WEBHOOK_NETWORKS = ["127.0.0.0/8"]
    settings.AUDIT_KEY = "11" * 32
    receiver = Receiver()
    yield receiver
    receiver.server.shutdown()
    receiver.server.server_close()


@pytest.fixture
def peer(orchestrator):
    return Peer(orchestrator, Scope.SUBMIT)


def with_push(peer, url, **said):
    task = peer.send()
    config = {"taskId": task["id"], "id": "c1", "url": url, "token": "their-token", **said}
    return task, peer.rpc("CreateTaskPushNotificationConfig", config)


def deliver_all():
    Delivery.objects.update(next_attempt_at=timezone.now())
    for pk in outbox.overdue():
        outbox.deliver(pk)


def test_every_change_is_pushed_signed_and_with_the_clients_token(
    peer, receiver, consolidate, worker
):
    task, kept = with_push(
        peer, receiver.url, authentication={"scheme": "Bearer", "credentials": "secret"}
    )
    assert kept["result"]["id"] == "c1"
    assert "credentials" not in kept["result"].get("authentication", {})
    tasks.claim(worker.principal, skills=[], via="api")
    deliver_all()

    ((headers, body),) = receiver.requests
    assert json.loads(body)["task"]["status"]["state"] == "TASK_STATE_WORKING"
    assert headers["content-type"] == "application/a2a+json"
    assert headers["x-a2a-notification-token"] == "their-token"
    assert headers["authorization"] == "Bearer secret"
    public = signatures.push_key().public_key()
    claims = jwt.decode(
        headers["x-assent-signature"], public, algorithms=["EdDSA"], audience=receiver.url
    )
    assert claims["request_body_sha256"] == hashlib.sha256(body).hexdigest()
    assert claims["task_id"] == task["id"]


def test_a_receiver_that_fails_is_told_again_how_it_stands_then(
    peer, receiver, consolidate, worker, orchestrator
):
    with_push(peer, receiver.url)
    claimed = tasks.claim(worker.principal, skills=[], via="api")
    receiver.status = 500
    deliver_all()
    waiting = Delivery.objects.get(channel="push", state="waiting")
    assert (waiting.attempts, waiting.error) == (1, "NotAccepted: The receiver answered 500.")

    tasks.cancel(claimed.pk, by=orchestrator.principal, via="api")
    receiver.status = 200
    deliver_all()

    assert not Delivery.objects.filter(state="waiting").exists()
    states = {json.loads(body)["task"]["status"]["state"] for _, body in receiver.requests[1:]}
    assert states == {"TASK_STATE_CANCELED"}, "level-triggered: never an outdated state"


@pytest.mark.parametrize(
    "url", ["http://169.254.169.254/latest", "http://10.0.0.1/x", "ftp://example.com/", "nonsense"]
)
def test_nothing_is_pushed_to_private_addresses(peer, consolidate, settings, url):
    settings.WEBHOOK_NETWORKS = []
    _, refused = with_push(peer, url)

    assert refused["error"]["code"] == -32602
    assert "Nothing is pushed to that address" in refused["error"]["message"]


def ask_for_news(peer, url):
    parts = [{"data": {"skill": "consolidate", "input": GOOD_INPUT}}]
    message = {"messageId": "m1", "role": "ROLE_USER", "parts": parts}
    push = {"url": url, "token": "their-token"}
    configuration = {"returnImmediately": True, "taskPushNotificationConfig": push}
    return peer.rpc("SendMessage", {"message": message, "configuration": configuration})


def ask_for_news_by_rest(peer, url):
    body = {"skill": "consolidate", "input": GOOD_INPUT, "push": {"url": url, "token": "theirs"}}
    headers = {"Idempotency-Key": "once"}
    return peer.http("POST", "/api/v1/tasks", json=body, headers=headers)


def test_a_task_over_plain_rest_is_pushed_as_one_over_a2a_is(peer, receiver, consolidate, worker):
    first, again = (ask_for_news_by_rest(peer, receiver.url) for _ in range(2))
    assert (first.status_code, again.status_code) == (201, 200)
    tasks.claim(worker.principal, skills=[], via="api")
    deliver_all()

    ((headers, body),) = receiver.requests
    pushed = json.loads(body)["task"]
    assert pushed["id"] == first.json()["task_id"]
    assert pushed["status"]["state"] == "TASK_STATE_WORKING"
    assert headers["x-a2a-notification-token"] == "theirs"
    assert "x-assent-signature" in headers


def test_an_address_that_is_refused_leaves_no_task_behind(peer, consolidate, settings):
    settings.WEBHOOK_NETWORKS = []
    private = "http://10.0.0.1/x"

    assert ask_for_news(peer, private)["error"]["code"] == -32602
    refused = ask_for_news_by_rest(peer, private)

    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_request")
    assert "Nothing is pushed to that address" in refused.json()["detail"]
    assert not Task.objects.exists()


def test_what_is_rejected_keeps_no_address(orchestrator, receiver, consolidate):
    reader = Peer(orchestrator, Scope.READ_ALL)
    answer = ask_for_news(reader, receiver.url)["result"]["task"]

    assert answer["status"]["state"] == "TASK_STATE_REJECTED"
    assert not PushConfig.objects.exists()


def test_configs_are_read_listed_and_taken_away_by_their_owner_only(
    peer, receiver, consolidate, helpdesk
):
    task, _ = with_push(peer, receiver.url)
    named = {"taskId": task["id"], "id": "c1"}

    assert peer.rpc("GetTaskPushNotificationConfig", named)["result"]["url"] == receiver.url
    listed = peer.rpc("ListTaskPushNotificationConfigs", {"taskId": task["id"]})["result"]
    assert [config["id"] for config in listed["configs"]] == ["c1"]
    other = Peer(helpdesk, Scope.SUBMIT)
    assert other.rpc("GetTaskPushNotificationConfig", named)["error"]["code"] == -32001
    assert "error" not in peer.rpc("DeleteTaskPushNotificationConfig", named)
    assert peer.rpc("GetTaskPushNotificationConfig", named)["error"]["code"] == -32001


def test_header_injection_by_token_is_refused(peer, receiver, consolidate):
    _, refused = with_push(peer, receiver.url, token="a\r\nX-Evil: 1")

    assert refused["error"]["code"] == -32602
