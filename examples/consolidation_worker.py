"""A worker that reads transcripts, finds where they contradict each other, and asks.

No model is involved: what it does is the same each time, so that the story can be told as a test.

    examples/consolidation_worker.py --token-file FILE          work until stopped
    examples/consolidation_worker.py --token-file FILE --once   one task, then end
    examples/consolidation_worker.py --token-file FILE submit   submit 47 transcripts and wait

It runs no server. It claims a task by long-poll, reports how far it is, asks when two transcripts
say different things, sleeps in a long-poll until a person has answered, and completes.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx

SKILL = "consolidate"
CLAIM_WAIT_S = 30
REPORT_EVERY = 8  # transcripts
# “the launch date is 3 May.”
CLAIM = re.compile(r"\bthe ([a-z][a-z ]{2,40}?) is ([^.\n]{1,60})\.", re.IGNORECASE)


class LeaseLost(Exception):
    """The task was canceled, or somebody else has it now: stop, and forget it."""


@dataclass
class Contradiction:
    """One thing of which the transcripts say different things."""

    thing: str
    said: dict[str, list[int]]  # value → numbers of the transcripts that say it

    @property
    def question(self) -> str:
        what = "; ".join(
            f"{value} ({len(numbers)} transcripts)" for value, numbers in self.said.items()
        )
        return f"The transcripts disagree about the {self.thing}: {what}. Which is right?"

    @property
    def form(self) -> dict[str, Any]:
        label = f"The {self.thing} is"
        properties = {"value": {"title": label, "enum": list(self.said)}}
        return {"type": "object", "properties": properties, "required": ["value"]}

    def evidence(self, transcripts: list[str]) -> Iterator[dict[str, str]]:
        for value, numbers in self.said.items():
            quote = next(line for line in transcripts[numbers[0]].splitlines() if value in line)
            yield {"text": f"Transcript {numbers[0] + 1}: “{quote.strip()}”"}


@dataclass
class Facts:
    """What the transcripts say, thing by thing."""

    said: dict[str, dict[str, list[int]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )

    def read(self, number: int, transcript: str) -> None:
        for thing, value in CLAIM.findall(transcript):
            self.said[thing.lower()][value.strip()].append(number)

    def contradictions(self) -> list[Contradiction]:
        return [
            Contradiction(thing, dict(values))
            for thing, values in sorted(self.said.items())
            if len(values) > 1
        ]


class Work:
    """One claimed task. Everything said about it carries the fencing token."""

    def __init__(self, http: httpx.Client, claimed: dict[str, Any]) -> None:
        self.http = http
        self.input: dict[str, Any] = claimed["input"]
        self.task_id: str = claimed["task_id"]
        self._token = claimed["fencing_token"]

    def say(self, verb: str, **said: Any) -> dict[str, Any]:
        """Raises ``LeaseLost`` when the task is not ours any more."""
        body = {"fencing_token": self._token, **said}
        answer = persistently(self.http, "POST", f"/api/v1/work/{self.task_id}/{verb}", json=body)
        if answer.status_code == 409:
            raise LeaseLost(answer.json()["detail"])
        answer.raise_for_status()
        found: dict[str, Any] = answer.json()
        return found

    def ask(self, text: str, form: dict[str, Any], evidence: list[dict[str, str]]) -> Any:
        """The answer, however long somebody thinks about it.

        Raises ``LeaseLost`` when nobody answered in time: the task is canceled then.
        """
        question = self.say("ask", text=text, form=form, evidence=evidence)
        there = f"/api/v1/work/{self.task_id}/questions/{question['question_id']}"
        while question["state"] == "open":
            answer = persistently(self.http, "GET", there, params={"wait": 30})
            answer.raise_for_status()
            question = answer.json()
        if question["state"] != "answered":
            raise LeaseLost(f"The question was {question['state']}.")
        return question["answer"]


def consolidate(work: Work) -> None:
    """Read, ask about each contradiction, and complete."""
    transcripts: list[str] = work.input["transcripts"]
    facts = Facts()
    for number, transcript in enumerate(transcripts):
        facts.read(number, transcript)
        if number % REPORT_EVERY == 0:
            percent = 80 * (number + 1) // len(transcripts)
            done = f"{number + 1} of {len(transcripts)} transcripts"
            work.say("progress", stage="reading", percent=percent, message=done)
    settled: dict[str, str] = {}
    for found in facts.contradictions():
        answer = work.ask(found.question, found.form, list(found.evidence(transcripts)))
        settled[found.thing] = answer["value"]
    known = {
        thing: settled.get(thing) or next(iter(values)) for thing, values in facts.said.items()
    }
    text = "\n".join(f"- The {thing} is {value}." for thing, value in sorted(known.items()))
    parts = [{"text": text}]
    work.say("artifacts", artifact_id="notes", name="Consolidated notes", parts=parts)
    result = {"transcripts": len(transcripts), "facts": known, "settled_by_people": settled}
    work.say("complete", result=result)


def work_on(http: httpx.Client, once: bool) -> None:
    while True:
        body, began = {"skills": [SKILL], "wait_s": CLAIM_WAIT_S}, time.monotonic()
        answer = persistently(http, "POST", "/api/v1/work/claim", json=body)
        if answer.status_code == 204:
            # Where too many wait already, the answer comes at once.
            time.sleep(max(0.0, 1.0 - (time.monotonic() - began)))
            continue
        answer.raise_for_status()
        work = Work(http, answer.json())
        print(f"claimed {work.task_id}", flush=True)
        try:
            consolidate(work)
            print(f"completed {work.task_id}", flush=True)
        except LeaseLost as lost:
            print(f"let go of {work.task_id}: {lost}", flush=True)
        if once:
            return


def persistently(http: httpx.Client, method: str, path: str, **said: Any) -> httpx.Response:
    """Through restarts of Assent: everything that a worker says may be said again."""
    pause = 0.2
    while True:
        try:
            answer = http.request(method, path, timeout=90, **said)
            if answer.status_code < 500:
                return answer
        except httpx.TransportError as failure:
            print(
                f"Assent is not to be reached ({failure}); trying again in {pause:.1f} s",
                flush=True,
            )
        time.sleep(pause)
        pause = min(pause * 2, 5.0)


# --- the other side: who wants transcripts consolidated -----------------------------------------

SPEAKERS = ("Ana", "Ben", "Chiara", "Dev", "Elif")
TOPICS = ("the booth", "the keynote", "catering", "travel", "the press list", "badges")


def transcripts(count: int = 47) -> list[str]:
    """Meetings about one launch. All agree on the venue; some say another launch date."""
    found = []
    for number in range(count):
        first, second = SPEAKERS[number % 5], SPEAKERS[(number + 2) % 5]
        lines = [f"{first}: Let us go through {TOPICS[number % 6]} again."]
        if number % 4 == 0:
            date = "5 May" if number in {12, 28, 40} else "3 May"
            lines.append(f"{second}: Remember, the launch date is {date}.")
        if number % 7 == 0:
            lines.append(f"{first}: And the venue is the old harbour hall.")
        lines.append(f"{second}: Fine, I will write to everybody about it.")
        found.append("\n".join(lines))
    return found


def submit(http: httpx.Client) -> int:
    """Submit and wait, as any client would. Returns an exit code."""
    body = {"skill": SKILL, "input": {"transcripts": transcripts()}}
    headers = {"Idempotency-Key": uuid4().hex}
    answer = persistently(http, "POST", "/api/v1/tasks", json=body, headers=headers)
    answer.raise_for_status()
    task = answer.json()
    print(f"submitted {task['task_id']}: {task['state']}", flush=True)
    while task["retry_after_s"] is not None:
        there = f"/api/v1/tasks/{task['task_id']}"
        before, task = task, persistently(http, "GET", there, params={"wait": 30}).json()
        if task["state"] != before["state"]:
            print(task["state"], flush=True)
    print(task["result"] or task["reason"], flush=True)
    return 0 if task["state"] == "completed" else 1


def submit_forever(http: httpx.Client, every_s: float) -> None:
    while True:
        submit(http)
        time.sleep(every_s)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "what", nargs="?", choices=["work", "submit", "keep-submitting"], default="work"
    )
    parser.add_argument("--url", default=os.environ.get("ASSENT_URL", "http://localhost:8000"))
    parser.add_argument("--token-file", type=Path, required=True)
    parser.add_argument("--once", action="store_true", help="one task, then end")
    said = parser.parse_args(arguments)
    headers = {"Authorization": f"Bearer {said.token_file.read_text().strip()}"}
    with httpx.Client(base_url=said.url, headers=headers) as http:
        if said.what == "submit":
            return submit(http)
        if said.what == "keep-submitting":
            submit_forever(http, every_s=90)
        work_on(http, said.once)
    return 0


if __name__ == "__main__":
    sys.exit(main())
