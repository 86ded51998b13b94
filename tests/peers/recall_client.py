"""A client of plain REST as the Recall consolidation article describes one; it knows nothing of us.

It trusts a card only when the card promises what the client relies on, asks at most every two
seconds, asks less often while nothing happens, and hands a question to a callback.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import httpx

FLOOR_S, PATIENT_POLLS, CEILING_S = 2.0, 10, 30.0
TERMINAL = {"completed", "failed", "canceled", "rejected"}


class CardRefused(Exception):
    pass


class TokenRefused(Exception):
    pass


class TaskFailed(Exception):
    def __init__(self, task: dict[str, Any]) -> None:
        super().__init__(f"{task['state']}: {task['reason']}")
        self.task = task


class RecallClient:
    def __init__(
        self, agent_url: str, token: str, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self.agent_url = agent_url
        self.sleep = sleep
        self.http = httpx.Client(headers={"Authorization": f"Bearer {token}"}, timeout=30)
        self.card: dict[str, Any] = {}

    def fetch_card(self, skill: str) -> dict[str, Any]:
        answer = self.http.get(f"{self.agent_url}/.well-known/agent-card.json")
        answer.raise_for_status()
        card = answer.json()
        if not card["capabilities"]["inputRequired"]:
            raise CardRefused("It cannot ask.")
        if not card["capabilities"]["stateTransitionHistory"]:
            raise CardRefused("It keeps no history.")
        if card["url"] != self.agent_url:
            raise CardRefused(f"It is the card of {card['url']}.")
        if "bearer" not in {scheme.lower() for scheme in card["authentication"]["schemes"]}:
            raise CardRefused("It takes no bearer token.")
        offered = {entry["id"]: entry for entry in card["skills"]}
        if skill not in offered:
            raise CardRefused(f"It has no {skill}.")
        if not offered[skill]["examples"] or "application/json" not in offered[skill]["inputModes"]:
            raise CardRefused(f"It does not say what {skill} takes.")
        self.card = card
        return card

    def submit_with_validation(self, required: set[str], task: dict[str, Any]) -> dict[str, Any]:
        """Submit only to an agent whose card promises every capability that is required."""
        answer = self.http.get(f"{self.agent_url}/.well-known/agent-card.json")
        answer.raise_for_status()
        promised = {name for name, value in answer.json()["capabilities"].items() if value}
        if missing := required - promised:
            raise CardRefused(f"missing {missing}")
        submitted = self.http.post(f"{self.agent_url}/tasks", json=task)
        submitted.raise_for_status()
        return dict(submitted.json())

    def run(
        self, skill: str, value: Any, on_question: Callable[[str, dict[str, Any]], Any]
    ) -> dict[str, Any]:
        submitted = self.http.post(
            f"{self.agent_url}/tasks",
            json={"skill": skill, "input": value, "card_version": self.card["version"]},
        )
        submitted.raise_for_status()
        task = submitted.json()
        working = 0
        while task["state"] not in TERMINAL:
            if task["state"] == "auth-required":
                raise TokenRefused("Refresh bearer token and resubmit")
            if task["state"] == "input-required":
                question = task["input_required"]
                answer = on_question(question["description"], question)
                resolved = self.http.post(
                    f"{self.agent_url}/tasks/{task['task_id']}/resolve", json={"answer": answer}
                )
                resolved.raise_for_status()
                working = 0
            working += task["state"] == "working"
            self.sleep(min(CEILING_S, FLOOR_S * 2 ** max(0, working - PATIENT_POLLS)))
            task = self.poll(task["task_id"])
        if task["state"] != "completed":
            raise TaskFailed(task)
        return task

    def poll(self, task_id: str) -> dict[str, Any]:
        while True:
            answer = self.http.get(f"{self.agent_url}/tasks/{task_id}")
            if answer.status_code != 429:
                answer.raise_for_status()
                found: dict[str, Any] = answer.json()
                return found
            self.sleep(float(answer.headers["Retry-After"]))
