"""A client of HumanLayer, by hand: what it sends, and what people do meanwhile."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from django.test import Client

from ledger.models import AgentToken, Transaction
from ledger.transactions import coordinator

OPTIONS = [
    {"name": "later", "title": "Not now", "prompt_fill": "Not now, ask tomorrow"},
    {"name": "never", "title": "Never", "description": None, "prompt_fill": None},
]


class HumanLayer:
    def __init__(self, token: str) -> None:
        self.token, self.http = token, Client()

    def post(self, path: str, body: Any) -> Any:
        return self.http.post(
            f"/humanlayer/v1{path}",
            body,
            content_type="application/json",
            headers={"Authorization": f"Bearer {self.token}"},
        )

    def get(self, path: str) -> Any:
        headers = {"Authorization": f"Bearer {self.token}"}
        return self.http.get(f"/humanlayer/v1{path}", headers=headers)

    def call(self, fn: str = "send_email", call_id: str = "", **spec: Any) -> Any:
        spec = {"kwargs": {"to": "ann@example.com"}, "channel": None, "state": None, **spec}
        body = {
            "run_id": "run-1",
            "call_id": call_id or f"call-{uuid4().hex[:8]}",
            "spec": {"fn": fn, "reject_options": None, **spec},
            "status": None,
        }
        return self.post("/function_calls", body)

    def contact(self, msg: str = "Which colour?", call_id: str = "", **spec: Any) -> Any:
        body = {
            "run_id": "run-1",
            "call_id": call_id or f"human_call-{uuid4().hex[:8]}",
            "spec": {"msg": msg, "subject": None, "channel": None, "state": None, **spec},
            "status": None,
        }
        return self.post("/contact_requests", body)

    def poll(self, call_id: str) -> Any:
        answer = self.get(f"/function_calls/{call_id}")
        assert answer.status_code == 200
        return answer.json()["status"]

    def poll_contact(self, call_id: str) -> Any:
        answer = self.get(f"/contact_requests/{call_id}")
        assert answer.status_code == 200
        return answer.json()["status"]


@pytest.fixture
def token(helpdesk):
    return AgentToken.issue(helpdesk, scopes=["propose", "submit"])[1]


@pytest.fixture
def humanlayer(token):
    return HumanLayer(token)


@pytest.fixture
def decide(alice):
    def act(verb: str, reason: str = "") -> Transaction:
        row = Transaction.objects.get()
        verb_of = {"approve": coordinator.approve, "reject": coordinator.reject}[verb]
        return verb_of(row.pk, digest=row.intent_digest, by=alice, via="web", reason=reason)

    return act
