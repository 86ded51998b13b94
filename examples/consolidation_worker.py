"""A worker that reads transcripts, finds where they contradict each other, and asks.

It uses no model and does the same each time, so that a test can tell the whole story.

    examples/consolidation_worker.py --token-file FILE          work until stopped
    examples/consolidation_worker.py --token-file FILE --once   one task, then end
    examples/consolidation_worker.py --token-file FILE submit   submit 47 transcripts and wait

It runs no server. It claims tasks by long-poll, reports its progress, asks when two transcripts
disagree, waits in a long-poll until a person has answered, and completes.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import threading
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
AT_ONCE = 4  # tasks
STARTS_WITHIN_S = 30  # Assent may start beside us: so long nothing is said of its being away
REPORT_EVERY = 8  # transcripts
# “the launch date is 3 May.”
CLAIM = re.compile(r"\bthe ([a-z][a-z ]{2,40}?) is ([^.\n]{1,60})\.", re.IGNORECASE)


class LeaseLost(Exception):
    """The task was canceled, or another worker has it: stop working on it."""


@dataclass
class Contradiction:
    """A thing about which the transcripts disagree."""

    thing: str
    values: dict[str, list[int]]  # value → numbers of the transcripts that state it

    @property
    def question(self) -> str:
        values = "; ".join(
            f"{value} ({len(numbers)} transcripts)" for value, numbers in self.values.items()
        )
        return f"The transcripts disagree about the {self.thing}: {values}. Which is right?"

    @property
    def form(self) -> dict[str, Any]:
        label = f"The {self.thing} is"
        properties = {"value": {"title": label, "enum": list(self.values)}}
        return {"type": "object", "properties": properties, "required": ["value"]}

    def evidence(self, transcripts: list[str]) -> Iterator[dict[str, str]]:
        for value, numbers in self.values.items():
            quote = next(line for line in transcripts[numbers[0]].splitlines() if value in line)
            yield {"text": f"Transcript {numbers[0] + 1}: “{quote.strip()}”"}


@dataclass
class Facts:
    """The values that the transcripts state for each thing."""

    values: dict[str, dict[str, list[int]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )

    def read(self, number: int, transcript: str) -> None:
        for thing, value in CLAIM.findall(transcript):
            self.values[thing.lower()][value.strip()].append(number)

    def contradictions(self) -> list[Contradiction]:
        return [
            Contradiction(thing, dict(values))
            for thing, values in sorted(self.values.items())
            if len(values) > 1
        ]


class Work:
    """One claimed task. Every request about it carries the fencing token."""

    def __init__(self, http: httpx.Client, claimed: dict[str, Any]) -> None:
        self.http = http
        self.input: dict[str, Any] = claimed["input"]
        self.task_id: str = claimed["task_id"]
        self._token = claimed["fencing_token"]
        # Of a revision: what people settled for the earlier task, which is not asked again.
        earlier = (claimed["revises"] or {}).get("result") or {}
        self.settled_before: dict[str, str] = earlier.get("settled_by_people", {})

    def send(self, verb: str, **fields: Any) -> dict[str, Any]:
        """One request about the task. Raises ``LeaseLost`` if another worker has it."""
        body = {"fencing_token": self._token, **fields}
        response = persistently(self.http, "POST", f"/api/v1/work/{self.task_id}/{verb}", json=body)
        if response.status_code == 409:
            raise LeaseLost(response.json()["detail"])
        response.raise_for_status()
        content: dict[str, Any] = response.json()
        return content

    def ask(self, text: str, form: dict[str, Any], evidence: list[dict[str, str]]) -> Any:
        """Ask and wait for the answer, up to the question's deadline.

        Raises ``LeaseLost`` if nobody answered in time: the task is then canceled.
        """
        question = self.send("ask", text=text, form=form, evidence=evidence)
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
            work.send("progress", stage="reading", percent=percent, message=done)
    settled: dict[str, str] = {}
    for contradiction in facts.contradictions():
        before = work.settled_before.get(contradiction.thing)
        if before in contradiction.values:
            settled[contradiction.thing] = before
            continue
        evidence = list(contradiction.evidence(transcripts))
        answer = work.ask(contradiction.question, contradiction.form, evidence)
        settled[contradiction.thing] = answer["value"]
    consolidated = {
        thing: settled.get(thing) or next(iter(values)) for thing, values in facts.values.items()
    }
    text = "\n".join(f"- The {thing} is {value}." for thing, value in sorted(consolidated.items()))
    parts = [{"text": text}]
    work.send("artifacts", artifact_id="notes", name="Consolidated notes", parts=parts)
    result = {"transcripts": len(transcripts), "facts": consolidated, "settled_by_people": settled}
    work.send("complete", result=result)


def work_on(http: httpx.Client, once: bool) -> None:
    """Claim and carry out. A task that waits for an answer keeps none of the others waiting."""
    if once:
        return carry_out(claim(http))
    places = threading.Semaphore(AT_ONCE)
    while True:
        places.acquire()
        threading.Thread(target=in_its_place, args=[claim(http), places], daemon=True).start()


def claim(http: httpx.Client) -> Work:
    """Wait for a task, for as long as it takes."""
    while True:
        body, began = {"skills": [SKILL], "wait_s": CLAIM_WAIT_S}, time.monotonic()
        answer = persistently(http, "POST", "/api/v1/work/claim", json=body)
        if answer.status_code != 204:
            answer.raise_for_status()
            work = Work(http, answer.json())
            print(f"claimed {work.task_id}", flush=True)
            return work
        # If too many requests wait already, the response comes at once.
        time.sleep(max(0.0, 1.0 - (time.monotonic() - began)))


def in_its_place(work: Work, places: threading.Semaphore) -> None:
    try:
        carry_out(work)
    finally:
        places.release()


def carry_out(work: Work) -> None:
    try:
        consolidate(work)
        print(f"completed {work.task_id}", flush=True)
    except LeaseLost as lost:
        print(f"lost {work.task_id}: {lost}", flush=True)


def persistently(http: httpx.Client, method: str, path: str, **options: Any) -> httpx.Response:
    """Retry while Assent is unreachable or fails: every request of a worker may be repeated."""
    pause, quiet_until = 0.2, time.monotonic() + STARTS_WITHIN_S
    while True:
        try:
            answer = http.request(method, path, timeout=90, **options)
            if answer.status_code < 500:
                return answer
        except httpx.TransportError as failure:
            if time.monotonic() > quiet_until:
                print(f"Assent is unreachable ({failure}); trying again", flush=True)
        time.sleep(pause)
        pause = min(pause * 2, 5.0)


# --- the client that submits transcripts ----------------------------------------------------------

SPEAKERS = ("Ana", "Ben", "Chiara", "Dev", "Elif")
TOPICS = ("the booth", "the keynote", "catering", "travel", "the press list", "badges")


def transcripts(count: int = 47) -> list[str]:
    """Meetings about one launch. All agree on the venue; some say another launch date."""
    texts = []
    for number in range(count):
        first, second = SPEAKERS[number % 5], SPEAKERS[(number + 2) % 5]
        lines = [f"{first}: Let us go through {TOPICS[number % 6]} again."]
        if number % 4 == 0:
            date = "5 May" if number in {12, 28, 40} else "3 May"
            lines.append(f"{second}: Remember, the launch date is {date}.")
        if number % 7 == 0:
            lines.append(f"{first}: And the venue is the old harbour hall.")
        lines.append(f"{second}: Fine, I will write to everybody about it.")
        texts.append("\n".join(lines))
    return texts


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
        "action", nargs="?", choices=["work", "submit", "keep-submitting"], default="work"
    )
    parser.add_argument("--url", default=os.environ.get("ASSENT_URL", "http://localhost:8000"))
    parser.add_argument("--token-file", type=Path, required=True)
    parser.add_argument("--once", action="store_true", help="one task, then end")
    options = parser.parse_args(arguments)
    headers = {"Authorization": f"Bearer {options.token_file.read_text().strip()}"}
    with httpx.Client(base_url=options.url, headers=headers) as http:
        if options.action == "submit":
            return submit(http)
        if options.action == "keep-submitting":
            submit_forever(http, every_s=90)
        work_on(http, options.once)
    return 0


if __name__ == "__main__":
    sys.exit(main())
