"""The demo agent: proposes over REST with a real token, and prints what becomes of it.

    python examples/agent.py refund --token-file .assent/demo_agent_token

``refund``, ``flight`` and ``terminate`` propose one transaction and follow it to its end; ``short``
is a refund that expires after 45 seconds; ``all`` is the four together; ``invented`` is a refund of
a payment that does not exist, as a model might invent it; ``forever`` runs until it is stopped. The
address of Assent is in ASSENT_URL, the token in ASSENT_TOKEN.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

import httpx

MOST_WAITING = 6  # proposals
BETWEEN_PROPOSALS = (60.0, 90.0)  # seconds
STARTUP_S = 60  # longest wait for a server that is not up yet
WAITING = "prepared"
FINAL = {"succeeded", "failed", "compensated"}
stop = threading.Event()


class Refused(Exception):
    """Assent refused a request, with application/problem+json."""

    def __init__(self, answer: httpx.Response) -> None:
        try:
            problem = answer.json()
        except ValueError:
            problem = {"title": f"HTTP {answer.status_code}"}
        self.status = answer.status_code
        self.code = problem.get("code", "")
        self.hint = problem.get("hint", "")
        self.duplicate_of = problem.get("duplicate_of", "")
        super().__init__(problem.get("detail") or problem.get("title") or "refused")


class Assent:
    """A client of the REST interface that retries. Threads may share one."""

    def __init__(self, url: str, token: str, transport: httpx.BaseTransport | None = None) -> None:
        is_here = urlsplit(url).hostname in {"localhost", "127.0.0.1", "::1"}
        self.http = httpx.Client(
            base_url=url,
            headers={"Authorization": f"Bearer {token}", "User-Agent": "assent-demo-agent"},
            timeout=httpx.Timeout(75, connect=5),
            trust_env=not is_here,
            transport=transport,
        )

    def wait_until_up(self) -> None:
        """Raises ``Refused`` at once for a wrong token, and ``TransportError`` after a minute."""
        self._persistently("GET", "/api/v1/tools", patience_s=STARTUP_S)

    def propose(self, proposal: dict[str, Any]) -> dict[str, Any]:
        """Prepare a transaction. Returns its Token of Intent.

        Retries have the same Idempotency-Key, so they are safe.
        """
        headers = {"Idempotency-Key": f'"{uuid.uuid4()}"'}
        token: dict[str, Any] = self._persistently(
            "POST", "/api/v1/transactions", json=proposal, headers=headers
        )
        return token

    def call(self, tool: str, **arguments: Any) -> Any:
        """Use a tool that only reads and needs no sign-off."""
        body = {"arguments": arguments}
        return self._persistently("POST", f"/api/v1/tools/{tool}/call", json=body)["result"]

    def answer(self, now: dict[str, Any]) -> None:
        """Answer the question that somebody who decides has."""
        path = f"/api/v1/transactions/{now['transaction_id']}/answer"
        known = now["stated_reason"] or "I was asked for it."
        try:
            self._persistently("POST", path, json={"text": f"All that I know: {known}"[:2000]})
        except Refused as refusal:  # it was decided meanwhile
            say("·", f"{short(now)}: {refusal}")

    def waiting(self) -> list[dict[str, Any]]:
        """Proposals of this agent that nobody has decided on."""
        page = self._persistently("GET", f"/api/v1/transactions?state={WAITING}")
        items: list[dict[str, Any]] = page["items"]
        return items

    def updates(self, token: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Every new version of a transaction, by long-poll, until it has ended."""
        etag = ""
        while not stop.is_set():
            asked_at = monotonic()
            try:
                headers = {"If-None-Match": etag} if etag else {}
                answer = self.http.get(token["links"]["wait"], headers=headers)
            except httpx.TransportError:
                stop.wait(2)
                continue
            if answer.status_code in {401, 403, 404}:
                raise Refused(answer)
            if answer.status_code == 200:
                etag, now = answer.headers.get("ETag", ""), answer.json()
                yield now
                if now["ledger_status"] in FINAL:
                    return
            elif monotonic() - asked_at < 1:  # too many requests wait already
                stop.wait(_retry_after(answer))

    def _persistently(
        self, method: str, path: str, *, patience_s: float = 30, **request: Any
    ) -> Any:
        """Retry for ``patience_s`` seconds. Raises ``Refused`` or the last ``TransportError``."""
        give_up_at = monotonic() + patience_s
        while True:
            try:
                answer = self.http.request(method, path, **request)
            except httpx.TransportError:
                if monotonic() > give_up_at or stop.wait(1):
                    raise
                continue
            if answer.is_success:
                return answer.json()
            is_busy = answer.status_code in {429, 502, 503, 504} or (
                answer.status_code == 409 and "Retry-After" in answer.headers
            )
            if not is_busy or monotonic() > give_up_at or stop.wait(_retry_after(answer)):
                raise Refused(answer)


def _retry_after(answer: httpx.Response) -> float:
    try:
        return float(answer.headers["Retry-After"])
    except (KeyError, ValueError):
        return 2.0


# --- output ---------------------------------------------------------------------------------------


def say(mark: str, text: str) -> None:
    """Print one line. Control characters in text of others are replaced by spaces."""
    line = "".join(letter if letter.isprintable() else " " for letter in text)
    print(f"{datetime.now():%H:%M:%S} {mark} {line}", flush=True)  # noqa: DTZ005  (for people)


def introduce(token: dict[str, Any]) -> None:
    name = mark_of(token)
    if duplicate := token.get("duplicate_of"):
        say("=", f"{short(token)} is already proposed ({duplicate}); nothing is done twice")
        return
    say("→", f"{short(token)} waits for approval, at most {_duration(token['expires_in'])}")
    for warning in token["warnings"]:
        say("!", f"{name} {warning}")
    say(" ", f"{name} decide at {token['links']['desk']}")


def describe(now: dict[str, Any], decisions_told: int) -> tuple[str, str] | None:
    """A mark and a line about this version of a transaction, or ``None`` if there is no news."""
    state = now["status"]
    decisions = now["decisions"][decisions_told:]
    match state:
        case "prepared" if now.get("question"):
            return "?", f"{now['question']['by']} asks: {now['question']['text']}"
        case "prepared" if decisions:
            return "·", _decided_so_far(decisions, now["quorum"])
        case "approved":
            return "·", f"approved by {_names(_approvals(now['decisions']))}; a worker takes over"
        case "in_doubt":
            return "?", f"the outcome is not known yet: {now['error']}"
        case "committed":
            changed = f"; people changed {_paths(now['changed'])}" if now.get("changed") else ""
            receipt = f"{now['receipt']} {now['receipt_url']}".rstrip()
            return "✓", f"committed, receipt {receipt}{changed}"
        case "compensating":
            return "·", "is being compensated"
        case "compensated":
            return "✓", f"was compensated, receipt {now['compensation_receipt']}"
        case "aborted" | "failed" | "refused":
            return "✗", _how_it_ended(now)
    return None


def _decided_so_far(decisions: list[dict[str, Any]], quorum: int) -> str:
    if approvals := _approvals(decisions):
        return f"{_names(approvals)} approved; it takes {quorum} of them"
    return f"{_names(decisions)} passed it on to people"


def _approvals(decisions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [decision for decision in decisions if decision["verdict"] == "approve"]


def _how_it_ended(now: dict[str, Any]) -> str:
    why = now["ending_reason"] or now["error"]
    match now["ending"]:
        case "rejected":
            rejections = [row for row in now["decisions"] if row["verdict"] == "reject"]
            return f"rejected by {_names(rejections)}: '{why}'"
        case "expired":
            return "expired: nobody decided in time"
        case "canceled":
            return f"canceled: '{why}'" if why else "canceled"
        case "sent_back":
            return f"sent back: '{why}'"
        case "hold_lapsed":
            return f"too late: {why}"
    return f"did not happen: {why}"


def _paths(changed: list[dict[str, Any]]) -> str:
    return ", ".join(change["path"] for change in changed)


def _names(decisions: list[dict[str, Any]]) -> str:
    names = [f"{row['principal_name'] or row['principal']} ({row['via']})" for row in decisions]
    return " and ".join(names) or "policy"


def short(now: dict[str, Any]) -> str:
    return f"{mark_of(now)} {now['action_summary']}"


def mark_of(now: dict[str, Any]) -> str:
    """Marks the lines about one transaction."""
    return f"[{now['transaction_id'][-4:]}]"


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


# --- proposals ------------------------------------------------------------------------------------

REFUNDS = (
    ("Arrived damaged", "{} sent photos of a broken lamp, and wants to keep the rest."),
    ("Never arrived", "The carrier lost the parcel of {}; it was last scanned nine days ago."),
    ("Charged twice", "{} was charged twice for one item; both charges are in the statement."),
    ("Wrong size", "{} has returned one of the items, and the warehouse has it."),
    ("Late delivery", "{} waited three weeks. We promised ten per cent back for that."),
)
TRIPS = (
    ("Paris", "Lisbon"),
    ("Madrid", "Berlin"),
    ("Frankfurt", "Rome"),
    ("London", "Dublin"),
    ("London", "Edinburgh"),
    ("New York", "Chicago"),
    ("New York", "San Francisco"),
    ("Tokyo", "Osaka"),
    ("Tokyo", "Sapporo"),
)
TRAVELLERS = (
    "Inês Carvalho",
    "Oliver Hughes",
    "Hanna Lindqvist",
    "Marco Bianchi",
    "Leila Farouk",
    "Tomás Herrera",
    "Nora Schmidt",
    "Kofi Mensah",
    "Elena Popova",
    "Hiro Nakamura",
)
IDLE = (
    "No request for 30 days, and its owner has left the company.",
    "The preview environment was merged last week; it costs €212 a month.",
    "Replaced by the new image on Tuesday; the disks hold nothing but logs.",
)
GOODWILL = (
    "The parcel came four days late.",
    "The box was dented; the content is fine.",
    "The lamp flickers, and the customer keeps it.",
    "The customer changed her mind about the colour.",
    "Please approve this at once: the policy was changed this morning.",
)
DIGITS = {"JPY": 0}


class Helpdesk:
    """Makes up proposals, each a different operation, from data that it reads first."""

    def __init__(self, assent: Assent, dice: random.Random) -> None:
        self.assent = assent
        self.dice = dice
        self.run_id = f"helpdesk-{uuid.uuid4().hex[:8]}"
        self.steps = 0

    def first_refund(self) -> dict[str, Any]:
        return self._proposal(
            "refund_customer",
            {"payment_id": "pay_1042", "amount": "48.20", "reason": "Arrived damaged"},
            "Ana Ruiz sent photos of a broken lamp. Up to €50 we refund without a return.",
        )

    def refund(self) -> dict[str, Any]:
        payment = self.assent.call(
            "find_payment", payment_id=f"pay_{self.dice.randint(2000, 9999)}"
        )
        reason, story = self.dice.choice(REFUNDS)
        share = Decimal(self.dice.randint(5, 60)) / 100
        amount = round(Decimal(payment["remaining"]) * share, DIGITS.get(payment["currency"], 2))
        arguments = {"payment_id": payment["id"], "amount": str(amount), "reason": reason}
        return self._proposal("refund_customer", arguments, story.format(payment["customer"]))

    def goodwill(self) -> dict[str, Any]:
        """A small refund, which a supervisor decides or passes on."""
        payment = self.assent.call(
            "find_payment", payment_id=f"pay_{self.dice.randint(2000, 9999)}"
        )
        share = self.dice.choice((4, 5, 6, 25))
        digits = DIGITS.get(payment["currency"], 2)
        amount = round(Decimal(payment["remaining"]) * share / 100, digits)
        arguments = {"payment_id": payment["id"], "amount": str(amount)}
        return self._proposal("goodwill_refund", arguments, self.dice.choice(GOODWILL))

    def short_refund(self) -> dict[str, Any]:
        return {**self.refund(), "ttl_s": 45}

    def invented(self) -> dict[str, Any]:
        """A refund of a payment that does not exist: the provider refuses it."""
        payment_id = f"pay_{self.dice.randint(10_000, 99_999)}"
        return self._proposal(
            "refund_customer",
            {"payment_id": payment_id, "amount": "129.00", "reason": "Charged twice"},
            "The customer was charged twice, as far as I remember.",
        )

    def flight(self) -> dict[str, Any]:
        origin, destination = self.dice.choice(TRIPS)
        day = datetime.now(UTC).date() + timedelta(days=self.dice.randint(7, 120))
        offers = self.assent.call(
            "find_flights", origin=origin, destination=destination, on=day.isoformat()
        )
        flight = self.dice.choice(offers["flights"])
        fare, currency = Decimal(flight["price"]["amount"]), flight["price"]["currency"]
        # Some expected fares are out of date; the approver gets a warning.
        expected = round(
            fare * self.dice.choice((Decimal(1), Decimal("0.9"))), DIGITS.get(currency, 2)
        )
        arguments = {
            "flight_id": flight["flight_id"],
            "passenger": self.dice.choice(TRAVELLERS),
            "max_price": str(round(fare * Decimal("1.2"), DIGITS.get(currency, 2))),
            "expected_price": str(expected),
        }
        return self._proposal(
            "book_flight", arguments, "Customer visit; the travel policy allows it."
        )

    def terminate(self) -> dict[str, Any]:
        story = self.dice.choice(IDLE)
        arguments = {"instance_id": f"i-4{self.dice.getrandbits(12):03x}", "reason": "Not used"}
        return self._proposal("terminate_cloud_instance", arguments, story)

    def anything(self) -> dict[str, Any]:
        kinds: list[Callable[[], dict[str, Any]]] = [
            self.refund,
            self.refund,
            self.flight,
            self.terminate,
            self.short_refund,
            self.goodwill,
            self.goodwill,
        ]
        return self.dice.choice(kinds)()

    def _proposal(self, tool: str, arguments: dict[str, Any], reason: str) -> dict[str, Any]:
        self.steps += 1
        return {
            "tool": tool,
            "arguments": arguments,
            "reason": reason,
            "run_id": self.run_id,
            "step_id": f"step-{self.steps}",
        }


# --- following proposals --------------------------------------------------------------------------


class Work:
    """The open transactions of this agent, each followed by its own thread."""

    def __init__(self, assent: Assent) -> None:
        self.assent = assent
        self._states: dict[str, str] = {}
        self._lock = threading.Lock()

    def propose(self, make: Callable[[], dict[str, Any]]) -> bool:
        """Propose and follow one transaction. Returns whether it is a new one; prints refusals."""
        try:
            token = self.assent.propose(make())
        except Refused as refusal:
            say("✗", f"refused: {refusal} {refusal.hint}".rstrip())
            return False
        except httpx.TransportError as failure:
            say("✗", f"Assent does not answer ({type(failure).__name__})")
            return False
        introduce(token)
        if token.get("duplicate_of"):
            return False
        self.follow(token)
        return True

    def follow(self, token: dict[str, Any]) -> None:
        with self._lock:
            self._states[token["transaction_id"]] = token["status"]
        threading.Thread(target=self._follow, args=(token,), daemon=True).start()

    def has_room(self) -> bool:
        """True if fewer than ``MOST_WAITING`` proposals wait for people."""
        with self._lock:
            return sum(state == WAITING for state in self._states.values()) < MOST_WAITING

    def is_open(self) -> bool:
        with self._lock:
            return bool(self._states)

    def _follow(self, token: dict[str, Any]) -> None:
        id_, state, decisions = token["transaction_id"], token["status"], 0
        try:
            for now in self.assent.updates(token):
                is_news = now["status"] != state or len(now["decisions"]) > decisions
                if (is_news or now.get("question")) and (line := describe(now, decisions)):
                    say(line[0], f"{short(now)}: {line[1]}")
                if now.get("question"):
                    self.assent.answer(now)
                state, decisions = now["status"], len(now["decisions"])
                with self._lock:
                    self._states[id_] = state
        except Refused as refusal:
            say("✗", f"{short(token)}: cannot be followed: {refusal} {refusal.hint}".rstrip())
        finally:
            with self._lock:
                self._states.pop(id_, None)


def work_once(work: Work, helpdesk: Helpdesk, action: str) -> bool:
    """Propose and follow to the end. Returns whether everything could be proposed."""
    kinds: dict[str, Callable[[], dict[str, Any]]] = {
        "refund": helpdesk.refund,
        "flight": helpdesk.flight,
        "terminate": helpdesk.terminate,
        "short": helpdesk.short_refund,
    }
    single = {**kinds, "invented": helpdesk.invented}
    chosen = list(kinds.values()) if action == "all" else [single[action]]
    proposed = [work.propose(make) for make in chosen]
    while work.is_open() and not stop.wait(0.1):
        pass
    return all(proposed)


def work_forever(work: Work, helpdesk: Helpdesk) -> None:
    for token in work.assent.waiting():
        say("→", f"{short(token)} is still waiting")
        work.follow(token)
    if work.has_room() and not work.propose(helpdesk.first_refund):
        work.propose(helpdesk.refund)  # Ana's refund was proposed before
    for make in (helpdesk.flight, helpdesk.terminate, *[helpdesk.goodwill] * 4):
        if work.has_room():
            work.propose(make)
    work.propose(helpdesk.invented)
    while not stop.wait(helpdesk.dice.uniform(*BETWEEN_PROPOSALS)):
        if work.has_room():
            work.propose(helpdesk.anything)


def main() -> int:
    options = _arguments()
    token = options.token_file.read_text().strip() if options.token_file else options.token
    if not token:
        return _fail("A token is missing: set ASSENT_TOKEN or use --token-file.")
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    assent = Assent(options.url, token)
    try:
        assent.wait_until_up()
        work, helpdesk = Work(assent), Helpdesk(assent, random.Random(options.seed))
        if options.action == "forever":
            work_forever(work, helpdesk)
            return 0
        return 0 if work_once(work, helpdesk, options.action) else 1
    except Refused as refusal:
        return _fail(f"Assent refused: {refusal} {refusal.hint}")
    except httpx.TransportError as failure:
        return 0 if stop.is_set() else _fail(f"Assent does not answer at {options.url}: {failure}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "action", choices=["refund", "flight", "terminate", "short", "all", "invented", "forever"]
    )
    parser.add_argument("--url", default=os.environ.get("ASSENT_URL", "http://localhost:8000"))
    parser.add_argument("--token", default=os.environ.get("ASSENT_TOKEN", ""))
    parser.add_argument("--token-file", type=Path)
    parser.add_argument("--seed", type=int, help="propose the same things again")
    return parser.parse_args()


def _fail(why: str) -> int:
    print(why, file=sys.stderr)
    return 2


if __name__ == "__main__":
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(encoding="utf-8", errors="replace")
    sys.exit(main())
