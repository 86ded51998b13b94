"""A second verifier: proves an exported ledger, and shares no line with the first one.

    python manage.py export_ledger ledger.jsonl
    python examples/verify.py ledger.jsonl --public-key HEX
    python examples/verify.py record decision-record.json --key VERIFIER_KEY
    python examples/verify.py evidence archive.zip --key VERIFIER_KEY

Written from docs/audit.md alone, with the standard library and `cryptography`. Every fault is a
line that names its row; the exit status is 1 if there is one.
"""

from __future__ import annotations

import argparse
import base64
import csv
import hashlib
import io
import json
import sys
import time
import unicodedata
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from itertools import pairwise
from typing import Any
from uuid import UUID, uuid5
from zoneinfo import ZoneInfo

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256

Record = dict[str, Any]
Limits = tuple[str, list[Record]]  # an owner, and its budgets
Change = tuple[int, tuple[str, ...], Decimal, Decimal | None]
WHOLE_SO_FAR = (
    "The ledger is whole, as far as this copy can show: only checkpoints that were kept elsewhere "
    "(--against) show whether its end is missing."
)

# --- the maps (docs/audit.md, "Moves") ------------------------------------------------------

BEGUN = {
    "committing",
    "committed",
    "in_doubt",
    "rolling_back",
    "aborted",
    "failed",
    "compensating",
    "compensated",
}
ENDED = {"refused", "committed", "handed_over", "aborted", "failed", "compensated"}
NOT_BEGUN = {"prepared", "refused", "approved", "handed_over"}
OPEN_TASK = {"submitted", "working", "input-required", "auth-required"}
ENDED_TASK = {"completed", "failed", "canceled", "rejected"}
# kind: (states that it leads out of, state that it leads to; None: the state stays)
MOVES: dict[str, dict[str, tuple[set[str], str | None]]] = {
    "transaction": {
        "prepared": (set(), "prepared"),
        "refused": (set(), "refused"),
        "plan_abandoned": (set(), "rolling_back"),
        "approval_recorded": ({"prepared"}, "prepared"),
        "passed_on": ({"prepared"}, "prepared"),
        "escalated": ({"prepared"}, "prepared"),
        "deadline_moved": ({"prepared"}, None),
        "revised": ({"prepared", "approved"}, "prepared"),
        "plan_confirmed": ({"approved"}, None),
        "outdated": ({"approved"}, "rolling_back"),
        "asked": ({"prepared"}, None),
        "answered": ({"prepared"}, None),
        "extended": ({"prepared"}, None),
        "advised": ({"prepared"}, None),
        "noted": (BEGUN | NOT_BEGUN, None),
        "approved": ({"prepared"}, "approved"),
        "approval_withdrawn": ({"prepared", "approved"}, "prepared"),
        "rejected": ({"prepared"}, "rolling_back"),
        "sent_back": ({"prepared"}, "rolling_back"),
        "expired": ({"prepared"}, "rolling_back"),
        "canceled": ({"prepared"}, "rolling_back"),
        "terms_renewed": ({"prepared", "approved"}, None),
        "terms_tightened": ({"approved"}, "prepared"),
        "handed_over": ({"approved"}, "handed_over"),
        "permit_issued": ({"approved"}, None),
        "claimed": ({"approved"}, "committing"),
        "hold_lapsed": ({"approved"}, "rolling_back"),
        "withdrawn": ({"approved"}, "rolling_back"),
        "committed": ({"committing", "in_doubt"}, "committed"),
        "failed": ({"committing"}, "rolling_back"),
        "fell_in_doubt": ({"committing"}, "in_doubt"),
        "retried": ({"in_doubt"}, "committing"),
        "retry_ordered": ({"in_doubt"}, "in_doubt"),
        "disproved": ({"in_doubt"}, "rolling_back"),
        "aborted": ({"rolling_back"}, "aborted"),
        "failure_settled": ({"rolling_back"}, "failed"),
        "let_go_by_hand": ({"rolling_back"}, "aborted"),
        "failure_let_go_by_hand": ({"rolling_back"}, "failed"),
        "receipt_kept": ({"in_doubt", "rolling_back", "aborted", "failed"}, "committed"),
        "late_receipt": (BEGUN, None),
        "late_receipt_settled": (BEGUN, None),
        "settlement_proposed": (BEGUN | {"approved"}, None),
        "settlement_declined": (BEGUN | {"approved"}, None),
        "compensation_started": ({"committed"}, "compensating"),
        "compensated": ({"compensating"}, "compensated"),
        "content_erased": (ENDED, None),
        "decision_reviewed": (BEGUN | NOT_BEGUN, None),
        "legal_hold_placed": (BEGUN | NOT_BEGUN, None),
        "legal_hold_released": (BEGUN | NOT_BEGUN, None),
    },
    "task": {
        "task_submitted": (set(), "submitted"),
        "task_rejected": (set(), "rejected"),
        "task_claimed": ({"submitted"}, "working"),
        "task_put_back": ({"working"}, "submitted"),
        "task_handed_over": ({"submitted", "working"}, "submitted"),
        "task_progressed": ({"working"}, "working"),
        "task_artifact_added": ({"working"}, "working"),
        "task_message_added": (OPEN_TASK, None),
        "task_asked": ({"working"}, "input-required"),
        "task_answered": ({"input-required"}, "working"),
        "task_question_lapsed": ({"input-required"}, "canceled"),
        "task_asked_about": ({"auth-required"}, "input-required"),
        "task_awaits_sign_off": ({"input-required", "working"}, "auth-required"),
        "task_resumed": ({"auth-required", "input-required"}, "working"),
        "task_declined": ({"working"}, "rejected"),
        "task_completed": ({"working"}, "completed"),
        "task_failed": ({"submitted", "working", "auth-required"}, "failed"),
        "task_canceled": (OPEN_TASK, "canceled"),
        "task_exchanged": (OPEN_TASK | ENDED_TASK, None),
        "task_content_erased": (ENDED_TASK, None),
        "task_legal_hold_placed": (OPEN_TASK | ENDED_TASK, None),
        "task_legal_hold_released": (OPEN_TASK | ENDED_TASK, None),
    },
}
EMPTY_QUESTION = '{"evidence":[],"form":{},"text":""}'
VERDICTS = {
    "approval_recorded": "approve",
    "approved": "approve",
    "rejected": "reject",
    "sent_back": "send_back",
    "passed_on": "pass_on",
}
REFUSALS = ("reject", "send_back")
KINDS = {"NONE": {"system", "user"}, "SUPERVISOR": {"agent", "user"}, "HUMAN": {"user"}}
OF_THE_PROPOSER = {
    "prepared",
    "refused",
    "plan_abandoned",
    "permit_issued",
    "escalated",
    "canceled",
    "answered",
}
OF_PEOPLE = {"asked", "extended", "noted"}
OF_THE_SYSTEM = {
    "handed_over",
    "claimed",
    "expired",
    "retried",
    "late_receipt",
    "terms_renewed",
    "terms_tightened",
    "deadline_moved",
    "plan_confirmed",
    "outdated",
}
NEEDS_SIGN_OFF = {"approved", "handed_over", "claimed"}
WORKER = "system:worker"
MOVES_DEADLINE = {"deadline_moved", "extended", "asked", "answered"}
REST_US, REST_TOLERANCE_US = 3600 * 10**6, 5 * 10**6
AFTER_A_CLAIM = {"receipt_kept", "late_receipt"}
BY_WORD = {
    "committed": "committed",
    "nothing_happened": "disproved",
    "keep_receipt": "receipt_kept",
    "not_ours": "late_receipt_settled",
    "dealt_with": "late_receipt_settled",
    "compensate": "compensation_started",
}
# What operators sign where people sign with a passkey.
WORDS = {"settlement_proposed", *BY_WORD.values()}

FIXED = (
    "id",
    "tenant",
    "proposed_by",
    "proposed_by_name",
    "stated_reason",
    "run_id",
    "step_id",
    "trace_id",
    "traceparent",
    "tool",
    "owner_service",
    "risk_level",
    "required_approver",
    "consequence_level",
    "quorum",
    "payload",
    "arguments",
    "input_hash",
    "operation_key",
    "action_summary",
    "warnings",
    "amount",
    "currency",
    "held",
    "hold_expires_at",
    "intent_digest",
    "created_at",
    "expires_at",
    "retain_until",
    "tool_version",  # left out where it is empty
)
OF_TERMS = {"required_approver", "quorum"}
AS_JSON = {"payload", "arguments", "warnings", "held", "result", "settlement", "terms"}
OUTCOME = (
    "decided_at",
    "ended_at",
    "receipt",
    "receipt_url",
    "result",
    "ending",
    "ending_reason",
    "compensation_receipt",
    "late_receipt",
    "settlement",
    "terms",
    "legal_hold_at",
    "content_erased_at",
)
# What an erasure leaves of the columns with content. Their digests are what the seals are over.
EMPTY: Record = {
    "stated_reason": "",
    "payload": {},
    "arguments": {},
    "action_summary": "",
    "warnings": [],
    "held": {},
    "result": None,
    "ending_reason": "",
}
ERASED = {"content_erased", "task_content_erased"}
HELD = {"legal_hold_placed", "task_legal_hold_placed"}
RELEASED = {"legal_hold_released", "task_legal_hold_released"}
MOVES_RETENTION = "task_awaits_sign_off"
ERASED_OF_TASK = {
    "input",
    "result",
    "metadata",
    "stage",
    "note",
    "reason",
    "errors",
    "messages",
    "artifacts",
    "questions",
}
# Shown as they are, in addition to the id and the money.
SHOWN = (
    "tenant",
    "tool",
    "proposed_by",
    "action_summary",
    "warnings",
    "consequence_level",
    "risk_level",
    "arguments",
    "operation_key",
)
# The columns that a revision may change; what a former one had is in its record.
CONTENT = (
    "arguments",
    "action_summary",
    "warnings",
    "amount",
    "currency",
    "risk_level",
    "evidence",
)
EVENT = (
    "previous_hash",
    "subject",
    "seq",
    "tenant",
    "kind",
    "from_state",
    "to_state",
    "principal",
    "principal_name",
    "via",
    "reason_digest",
    "details",
    "at",
)

# --- bytes ------------------------------------------------------------------------------------


def sha256(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


def netstrings(fields: Iterable[str]) -> bytes:
    raws = [field.encode() for field in fields]
    return b"".join(str(len(raw)).encode() + b":" + raw for raw in raws)


def canonical(value: Any) -> str:
    """RFC 8785; numbers that a double does not hold exactly are text of their digits."""
    if value is None or value is True or value is False:
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, int | float):
        return number(value)
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    names = sorted(value, key=lambda name: name.encode("utf-16-be"))
    return "{" + ",".join(f"{canonical(name)}:{canonical(value[name])}" for name in names) + "}"


def number(value: int | float) -> str:
    if abs(value) > 2**53 - 1:
        return f'"{Decimal(repr(value)):f}"'
    if value == int(value):
        return str(int(value))
    digits = Decimal(repr(value))
    if abs(value) >= 1e-6:
        return f"{digits:f}"
    sign, figures, _ = digits.normalize().as_tuple()
    rest = "".join(map(str, figures[1:]))
    mantissa = f"{figures[0]}.{rest}" if rest else f"{figures[0]}"
    return f"{'-' if sign else ''}{mantissa}e{digits.adjusted()}"


def text_of(column: str, value: Any) -> str:
    if column in AS_JSON:
        return canonical(value)
    return "" if value is None else str(value)


def outcome_text(column: str, value: Any) -> str:
    text = text_of(column, value)
    by_digest = column in ("result", "settlement") or (column == "ending_reason" and text)
    return digest(text) if by_digest else text


def digest(text: str) -> str:
    return sha256(text.encode())


def row_digest(texts: Record, former: Record, first: Record) -> str:
    """Over the netstrings of the fixed columns, those with content by their digest.

    The columns that follow from terms are as the first event has them; left out if it has terms.
    """
    columns: Sequence[str] = FIXED if texts.get("tool_version") else FIXED[:-1]
    if "terms" in first.get("sets", {}):
        columns = [column for column in columns if column not in OF_TERMS]
    elif texts["terms"] != "null":
        texts = {**texts, **{column: text_of(column, first.get(column)) for column in OF_TERMS}}
    return sha256(
        netstrings(
            (former.get(column) or digest(texts[column])) if column in EMPTY else texts[column]
            for column in columns
        )
    )


def outcome_at_first() -> Record:
    null = sha256(b"null")
    return dict.fromkeys(OUTCOME, "") | {"result": null, "settlement": null, "terms": "null"}


def outcome_after(events: list[Record]) -> Record:
    outcome = outcome_at_first()
    for event in events:
        sets = says(event).get("sets")
        outcome |= sets if isinstance(sets, dict) else {}
    return outcome


# --- one history ------------------------------------------------------------------------------


class History:
    """The row of one subject, its decisions and its events, as the export has them."""

    def __init__(self, subject: str) -> None:
        self.subject = subject
        self.rows: list[Record] = []
        self.contents: Record = {}
        self.decisions: list[Record] = []
        self.permits: list[Record] = []
        self.evidence: list[Record] = []
        self.revisions: list[Record] = []
        self.charges: list[Record] = []
        self.events: list[Record] = []

    @property
    def family(self) -> str:
        if self.rows:
            return str(self.rows[0]["type"])
        kinds = {event["kind"] for event in self.events}
        return next((name for name, moves in MOVES.items() if kinds & set(moves)), "account")

    def faults(self) -> Iterator[str]:
        family = self.family
        if not self.events:
            yield from (f"{row['type']} {row['id']} has no events." for row in self.rows)
            if not self.rows:
                yield from (f"decision {row['id']} has no events." for row in self.decisions)
            return
        yield from chain_faults(family, self.events)
        if family == "account":
            return
        if not self.rows:
            yield f"{family} {self.subject} is missing."
            return
        row, last = self.rows[0], self.events[-1]
        if row["state"] != last["to_state"]:
            yield f"{family} {row['id']} is not {last['to_state']}, as event {last['id']} says."
        if family == "task":
            yield from task_row_faults(row, self.events)
            yield from task_content_faults(row, self.contents, self.events)
        if family == "transaction":
            yield from row_faults(row, self.events)
            yield from sign_off_faults(row, self.events)
            yield from decision_faults(self.decisions, self.events)
            yield from permit_faults(self.permits, self.events)
            yield from charge_faults(self.charges, self.events)
            yield from revision_faults(row, self.revisions, self.events)
            shown, name = row.get("evidence") or [], f"transaction {row['id']}"
            if shown_digests(shown) != sealed_evidence(self.events):
                yield f"{name}: the evidence is not what was sealed."
            if [*map(stored, self.evidence)] != [*all_evidence(self.events)]:
                yield f"{name}: the content of the evidence is not what was sealed."


def says(event: Record) -> Record:
    try:
        details = json.loads(event["details"])
    except ValueError:
        return {}
    return details if isinstance(details, dict) else {}


def chain_faults(
    family: str, events: list[Record], withheld: frozenset[str] = frozenset()
) -> Iterator[str]:
    """``withheld`` are the kinds of events whose texts may be left out."""
    before = {"seq": 0, "hash": "", "to_state": "", "tenant": events[0]["tenant"]}
    for event in events:
        name = f"event {event['id']} of {family} {event['subject']}"
        if event["seq"] != before["seq"] + 1:
            yield f"event {before['seq'] + 1} of {family} {event['subject']} is missing."
        elif (event["previous_hash"], event["from_state"]) != (before["hash"], before["to_state"]):
            yield f"{name} does not follow the one before it."
        if event["hash"] != sha256(netstrings(text_of(field, event[field]) for field in EVENT)):
            yield f"{name} was changed."
        if event["tenant"] != before["tenant"] and family != "account":
            yield f"{name} has another tenant."
        yield from (f"{name}: {fault}" for fault in move_faults(family, event))
        before = event
    erasure = erasure_in(events)
    for event in events:
        name = f"event {event['id']} of {family} {event['subject']}"
        if erasure is not None and event["seq"] < erasure["seq"]:
            if event["reason"]:
                yield f"{name}: the reason should be erased."
        elif event["kind"] in withheld and not event["reason"]:
            continue
        elif digest(event["reason"]) != event["reason_digest"]:
            yield f"{name}: the reason was changed."


def move_faults(family: str, event: Record) -> Iterator[str]:
    if family == "account":
        if event["from_state"] or event["to_state"]:
            yield "an account has no state."
        return
    if event["kind"] not in MOVES[family]:
        yield f"there is no move {event['kind']!r}."
        return
    sources, target = MOVES[family][event["kind"]]
    if not (event["from_state"] in sources if sources else event["seq"] == 1):
        yield f"{event['kind']} does not lead out of {event['from_state']!r}."
    if event["to_state"] != (target or event["from_state"]):
        yield f"{event['kind']} does not lead to {event['to_state']!r}."


def erasure_in(events: list[Record]) -> Record | None:
    return next((event for event in events if event["kind"] in ERASED), None)


def former_digests(events: list[Record]) -> Record:
    """The erased columns' digests, as their erasure sealed them."""
    erasure = erasure_in(events)
    erased = says(erasure).get("erased") if erasure is not None else {}
    if not isinstance(erased, dict):
        return {}
    return {column: former for column, former in erased.items() if isinstance(former, str)}


def erasure_faults(family: str, events: list[Record], retain_until: str) -> Iterator[str]:
    """An erasure is the system's, once, after the retention, and under no hold.

    A hold is released by a person.
    """
    held, erased = False, False
    for event in events:
        held = event["kind"] in HELD or (held and event["kind"] not in RELEASED)
        name = f"event {event['id']} of {family} {event['subject']}"
        if event["kind"] in RELEASED and not event["principal"].startswith("user:"):
            yield f"{name}: released by {event['principal']}."
        if event["kind"] not in ERASED:
            continue
        if not event["principal"].startswith("system:"):
            yield f"{name}: erased by {event['principal']}."
        if held:
            yield f"{name}: erased although it was held."
        if erased:
            yield f"{name}: erased twice."
        if not retain_until.isdecimal() or int(event["at"]) < int(retain_until):
            yield f"{name}: erased too early."
        erased = True


def emptiness_faults(texts: Record, events: list[Record]) -> Iterator[str]:
    """After an erasure the columns with content are empty, and it named what each had."""
    erasure, former = erasure_in(events), former_digests(events)
    if erasure is None:
        return
    if not outcome_after(events)["content_erased_at"]:
        yield "the erasure does not say when the content was erased."
    before = outcome_after(events[: events.index(erasure)])
    for column, empty in EMPTY.items():
        if texts[column] != text_of(column, empty):
            yield f"{column} should be erased."
        if column in before and former.get(column) != (before[column] or digest("")):
            yield f"the erasure names another {column}."
    if set(former) != set(EMPTY):
        yield "the erasure does not name what each column had."


def evidence_faults(
    shown: list[Record], contents: list[bytes], events: list[Record]
) -> Iterator[str]:
    """What is there is what was shown, and what the events sealed; after an erasure none."""
    sealed = sealed_evidence(events)
    if shown_digests(shown) != sealed:
        yield "the evidence is not what was sealed."
    if [*map(sha256, contents)] != sealed:
        yield "the content of the evidence is not what was sealed."


def shown_digests(shown: list[Record]) -> list[Any]:
    return [piece.get("sha256") for piece in shown]


def sealed_evidence(events: list[Record]) -> list[Any]:
    return [] if erasure_in(events) else sealed_last(events, "evidence") or []


def all_evidence(events: list[Record]) -> Iterator[tuple[int, int, str]]:
    """Revision, number and digest of each piece that there must be."""
    planned = [event for event in events if event is events[0] or event["kind"] == "revised"]
    for revision, event in enumerate([] if erasure_in(events) else planned, 1):
        for number, sealed in enumerate(says(event).get("evidence", []), 1):
            yield revision, number, sealed


def stored(piece: Record) -> tuple[int, int, str]:
    content = base64.b64decode(piece["content"])
    return piece.get("revision", 1), piece["number"], sha256(content)


def row_faults(row: Record, events: list[Record]) -> Iterator[str]:
    name, first = f"transaction {row['id']}", says(events[0])
    row = {"tool_version": None, **row}
    texts = {column: text_of(column, row[column]) for column in (*FIXED, *OUTCOME)}
    if texts["expires_at"] != deadline_after(texts["expires_at"], events):
        yield f"{name}: expires_at is not what its events sealed."
    texts["expires_at"] = deadline_as_prepared(texts["expires_at"], events)
    if sealed_last(events, "row_digest") != row_digest(texts, former_digests(events), first):
        yield f"{name} is not what was prepared."
    if sealed_last(events, "intent_digest") != row["intent_digest"]:
        yield f"{name}: intent_digest is not the sealed one."
    if (row.get("replaces") or "") != first.get("replaces", ""):
        yield f"{name}: replaces is not the sealed one."
    is_asked = row["state"] == "prepared" and open_question(events) is not None
    if row["state"] == "prepared" and (row.get("asked_at") is not None) != is_asked:
        yield f"{name}: whether a question waits is not what its events say."
    of_terms = OF_TERMS if row["terms"] is not None else set()
    for column in {"quorum", "required_approver", "input_hash"} - of_terms:
        if first.get(column) != row[column]:
            yield f"{name}: {column} is not the sealed one."
    if row.get("keeper_may_sign", False) != (first.get("keeper_may_sign") is True):
        yield f"{name}: keeper_may_sign is not the sealed one."
    if row.get("required_policy", "") != first.get("required_policy", ""):
        yield f"{name}: required_policy is not the sealed one."
    yield from (f"{name}: {fault}" for fault in emptiness_faults(texts, events))
    yield from erasure_faults("transaction", events, texts["retain_until"])
    if erasure_in(events) is None and row["intent_digest"] not in intent_digests(row):
        yield f"{name} is not what was shown: its intent digest is of something else."
    if (row["tenant"], row["proposed_by"]) != (events[0]["tenant"], events[0]["principal"]):
        yield f"{name}: tenant or proposer is not that of its first event."
    if any(event["transaction_id"] != row["id"] for event in events):
        yield f"{name}: an event of it names another transaction."
    sealed = outcome_after(events)
    for column in OUTCOME:
        if sealed[column] != outcome_text(column, row[column]):
            yield f"{name}: {column} is not what its events sealed."


# --- deadlines --------------------------------------------------------------------------------


def moves_deadline(event: Record) -> bool:
    """Brakes always do; a question at the longest time that there is leaves it as it is."""
    return event["kind"] == "deadline_moved" or (
        event["kind"] in MOVES_DEADLINE and "from" in says(event)
    )


def deadline_as_prepared(deadline: str, events: list[Record]) -> str:
    moved = [str(says(event).get("from")) for event in events if moves_deadline(event)]
    return moved[0] if moved else deadline


def deadline_after(deadline: str, events: list[Record]) -> str:
    """As the last event that moved it says; ``deadline`` where none did."""
    moved = [event for event in events if moves_deadline(event)]
    return str(outcome_after(moved[-1:]).get("expires_at")) if moved else deadline


def deadline_faults(row: Record, events: list[Record]) -> Iterator[str]:
    """A deadline goes on from where it was, and by no more than its move may take or give."""
    first = deadline_as_prepared(str(row["expires_at"]), events)
    for number, event in enumerate(events):
        if not moves_deadline(event):
            continue
        name = f"event {event['id']} of transaction {row['id']}"
        if says(event).get("from") != deadline_after(first, events[:number]):
            yield f"{name}: it moved another deadline than the sealed one."
        elif not may_move(row, events, number):
            yield f"{name}: the deadline was moved by more than it may be."


def may_move(row: Record, events: list[Record], number: int) -> bool:
    event = events[number]
    step, at = step_us(event), int(event["at"])
    if event["kind"] == "extended":
        return step > 0
    if event["kind"] == "asked":
        return 0 < step <= REST_US
    if event["kind"] == "answered":
        return 0 < -step <= left_of_rest(events[:number], at) + REST_TOLERANCE_US
    return 0 < put_off_us(events[: number + 1]) <= at - int(row["created_at"])


def left_of_rest(events: list[Record], at: int) -> int:
    """The part that is not over yet of the time that questions without an answer gave."""
    rests_until = 0
    for event in events:
        if event["kind"] == "answered":
            rests_until = 0
        if event["kind"] == "asked" and "from" in says(event):
            rests_until = max(rests_until, int(event["at"])) + step_us(event)
    return max(rests_until - at, 0)


def open_question(events: list[Record]) -> Record | None:
    talk = [event for event in events if event["kind"] in ("asked", "answered")]
    return talk[-1] if talk and talk[-1]["kind"] == "asked" else None


def step_us(event: Record) -> int:
    before, now = str(says(event).get("from")), deadline_after("", [event])
    return int(now) - int(before) if before.isdecimal() and now.isdecimal() else 0


def put_off_us(events: list[Record]) -> int:
    """By how much brakes have put the deadline off in these events."""
    return sum(step_us(event) for event in events if event["kind"] == "deadline_moved")


# --- revisions --------------------------------------------------------------------------------


RESEALS = {"revised", "plan_confirmed"}


def revised_in(events: list[Record]) -> list[Record]:
    return [event for event in events if event["kind"] == "revised"]


def sealed_last(events: list[Record], name: str) -> Any:
    """The value that the last of these events sealed of the live revision."""
    reseals = RESEALS if name == "row_digest" else {"revised"}
    sealing = [event for event in events if event["seq"] == 1 or event["kind"] in reseals]
    return says(sealing[-1]).get(name) if sealing else None


def makers_in(events: list[Record]) -> set[str]:
    """The people who changed it, also where others have done so since."""
    made = {event["principal"] for event in revised_in(events)}
    return {maker for maker in made if maker.startswith("user:")}


def as_of(row: Record, revisions: list[Record], events: list[Record], number: int) -> Record | None:
    """The row as it was in this revision; nothing where that is not what the events sealed."""
    revised = revised_in(events)
    if number > len(revised):
        return row
    contents = [each["content"] for each in revisions if each["number"] == number]
    if len(contents) != 1 or set(contents[0]) != set(CONTENT):
        return None
    was = {**row, **contents[0]}
    is_sealed = says(revised[number - 1]).get("replaces") in [*intent_digests(was)]
    return was if is_sealed else None


def revision_faults(row: Record, revisions: list[Record], events: list[Record]) -> Iterator[str]:
    """Each former revision is what an event replaced, and changed as the events say."""
    name, revised = f"transaction {row['id']}", revised_in(events)
    if row.get("revision", 1) != len(revised) + 1:
        yield f"{name}: its revision is not what its events made it."
    if [each["number"] for each in revisions] != [*range(1, len(revised) + 1)]:
        yield f"{name}: its former revisions are not those that events replaced."
        return
    if erasure_in(events) is not None:
        kept = [each["number"] for each in revisions if each["content"] != {}]
        yield from (f"{name}: revision {number} should be erased." for number in kept)
        return
    try:
        rows = [as_of(row, revisions, events, n) for n in range(1, len(revised) + 2)]
    except UNREADABLE:
        rows = [None]
    shown = [next(intents(each)) for each in rows if each is not None]
    if len(shown) != len(rows):
        yield f"{name}: a former revision is not what was sealed."
        return
    for event, (before, after) in zip(revised, pairwise(shown), strict=False):
        changed = says(event).get("changed")
        if not isinstance(changed, list) or sorted(changed) != sorted(changes(before, after)):
            yield f"event {event['id']} of {name}: it changed something else than it says."
    yield from reseal_faults(row, revisions, events)


def reseal_faults(row: Record, revisions: list[Record], events: list[Record]) -> Iterator[str]:
    """Each later seal of the row goes on from the one before it, with what a plan fills alone."""
    texts = {column: text_of(column, row.get(column)) for column in (*FIXED, *OUTCOME)}
    texts["expires_at"] = deadline_as_prepared(texts["expires_at"], events)
    for number, event in enumerate(events):
        if event["kind"] not in RESEALS:
            continue
        before, hold = events[:number], says(event).get("replaced_hold")
        was = as_of(row, revisions, events, len(revised_in(before)) + 1)
        if was is None or not isinstance(hold, dict):
            yield f"event {event['id']}: it does not say what it replaced."
            continue
        former = {
            **texts,
            **{column: text_of(column, was[column]) for column in CONTENT if column in FIXED},
            "amount": amount_text(was["amount"]),
            "intent_digest": str(sealed_last(before, "intent_digest")),
            "hold_expires_at": str(hold.get("hold_expires_at")),
        }
        digests = {"held": str(hold.get("held"))}
        if row_digest(former, digests, says(events[0])) != sealed_last(before, "row_digest"):
            yield f"event {event['id']}: it changed more of the row than a plan does."


def amount_text(amount: Any) -> str:
    """With six decimals, as a row has it."""
    return "" if amount in (None, "") else f"{Decimal(str(amount)):.6f}"


def changes(before: Record, after: Record) -> Iterator[str]:
    """The paths of the values that are different in two intents."""
    yield from changed_paths(before["arguments"], after["arguments"], "arguments")
    for name in ("action_summary", "financial_impact", "warnings", "risk_level", "evidence"):
        if before.get(name) != after.get(name):
            yield name


def changed_paths(before: Any, after: Any, path: str) -> Iterator[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        for name in {**before, **after}:
            yield from changed_paths(before.get(name), after.get(name), f"{path}.{name}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, pair in enumerate(zip(before, after, strict=True)):
            yield from changed_paths(*pair, f"{path}[{number}]")
    elif before != after or type(before) is not type(after):
        yield path


def revised_faults(event: Record, before: list[Record]) -> Iterator[str]:
    """A person changes what waits; the worker what was signed off and is not true any more."""
    who, details = event["principal"], says(event)
    by_person = who.startswith("user:") and event["from_state"] == "prepared"
    if not by_person and (who, event["from_state"]) != (WORKER, "approved"):
        yield f"revised by {who}, out of {event['from_state']}."
    if details.get("revision") != len(revised_in(before)) + 2:
        yield "it is not the next revision."
    if details.get("replaces") != sealed_last(before, "intent_digest"):
        yield "it replaces something else than what was there."


def talk_faults(event: Record, before: list[Record], proposer: str) -> Iterator[str]:
    kind, who = event["kind"], event["principal"]
    last = [(each["kind"], each["principal"]) for each in before[-1:]]
    is_anew = kind == "extended" and who == WORKER and last == [("revised", WORKER)]
    if kind in OF_PEOPLE and not who.startswith("user:") and not is_anew:
        yield f"{kind} by {who}."
    if kind == "answered" and who != proposer:
        yield "answered by somebody else than the proposer."
    if kind == "plan_confirmed" and {"intent_digest", "evidence", "revision"} & says(event).keys():
        yield "it confirms something else than what was signed off."


def advice_faults(event: Record, before: list[Record], required: str) -> Iterator[str]:
    """An agent's, which is no vote: once on a revision, and where people decide."""
    details, who = says(event), event["principal"]
    if not who.startswith("agent:"):
        yield f"advice by {who}."
    if required != "HUMAN":
        yield "advice where people do not decide alone."
    if details.get("recommends") not in ("approve", "reject"):
        yield "it recommends nothing."
    if details.get("intent_digest") != sealed_last(before, "intent_digest"):
        yield "advice on something else."
    last = max((each["seq"] for each in revised_in(before)), default=0)
    if any(e["kind"] == "advised" and e["principal"] == who for e in before if e["seq"] > last):
        yield f"a second advice of {who}."
    keepers = details.get("proposer_kept_by", [])
    if voter_of(event) in [*keepers, *["agents without a keeper"] * bool(keepers)]:
        yield f"advice of {who}, for who keeps the agent that proposed it."


def task_row_faults(row: Record, events: list[Record]) -> Iterator[str]:
    erasure = erasure_in(events)
    sealed = says(erasure).get("content_erased_at") if erasure is not None else None
    if row["content_erased_at"] != sealed:
        yield f"task {row['id']}: content_erased_at is not what its events sealed."
    yield from task_erasure_faults(events)


def task_content_faults(row: Record, contents: Record, events: list[Record]) -> Iterator[str]:
    """Input, result, questions and answers, and who answered, against what was sealed."""
    sealed, is_erased = sealed_of_task(events), erasure_in(events) is not None
    for event in events:
        details = says(event)
        if event["kind"] == "task_asked":
            sealed[f"question {details['question']}"] = details["asked_digest"]
            sealed[f"answer to {details['question']}"] = digest("null")
        if event["kind"] == "task_answered":
            sealed[f"answer to {details['question']}"] = details["answer_digest"]
    if is_erased:
        sealed = {
            name: digest(EMPTY_QUESTION if name.startswith("question ") else "null")
            for name in sealed
        }
    for event in events:
        if event["kind"] == "task_answered":
            sealed[f"answerer of {says(event)['question']}"] = event["principal"]
    for name in sorted({*sealed, *contents}):
        if sealed.get(name) != contents.get(name):
            yield f"task {row['id']}: its {name} is not the sealed one."


def task_erasure_faults(events: list[Record]) -> Iterator[str]:
    """An erasure at the right time, of what the events before it sealed."""
    erasure, former = erasure_in(events), former_digests(events)
    before = events if erasure is None else events[: events.index(erasure)]
    yield from erasure_faults("task", events, retention_of_task(before))
    if erasure is None:
        return
    name = f"event {erasure['id']} of task {erasure['subject']}"
    if not str(says(erasure).get("content_erased_at", "")).isdecimal():
        yield f"{name}: it does not say when the content was erased."
    if set(former) != ERASED_OF_TASK:
        yield f"{name}: it does not name what each column had."
    for column, sealed in sealed_of_task(before).items():
        if former.get(column) != sealed:
            yield f"{name}: the erasure names another {column}."


def retention_of_task(events: list[Record]) -> str:
    """As submitted, or as the transaction has it that the task came to stand for."""
    may_say = [event for event in events if event is events[0] or event["kind"] == MOVES_RETENTION]
    terms = [str(says(event)["retain_until"]) for event in may_say if "retain_until" in says(event)]
    return terms[-1] if terms else ""


def sealed_of_task(events: list[Record]) -> Record:
    """The digests of input and result: the first event has the one, a completion the other."""
    results = [says(e).get("result_digest") for e in events if e["kind"] == "task_completed"]
    first = says(events[0]).get("input_digest") if events else None
    return {"input": first, "result": results[-1] if results else digest("null")}


def intent_digests(row: Record) -> Iterator[str]:
    yield from (sha256(canonical(shown).encode()) for shown in intents(row))


def intents(row: Record) -> Iterator[Record]:
    """One for each number of decimals that a currency may have."""
    shown = {"transaction_id": row["id"], "financial_impact": None, **{c: row[c] for c in SHOWN}}
    if row.get("tool_version"):
        shown["tool_version"] = row["tool_version"]
    if row.get("evidence"):
        shown["evidence"] = row["evidence"]
    if row["amount"] is None:
        yield shown
        return
    amount = Decimal(row["amount"])
    for decimals in range(7):
        if round(amount, decimals) == amount:
            impact = {"amount": f"{amount:.{decimals}f}", "currency": row["currency"]}
            yield {**shown, "financial_impact": impact}


def sign_off_faults(row: Record, events: list[Record]) -> Iterator[str]:
    first, proposer = says(events[0]), events[0]["principal"]
    voters: set[str] = set()
    approvals: list[Record] = []
    passed_on = was_claimed = False
    as_prepared = deadline_as_prepared(str(row["expires_at"]), events)
    for number, event in enumerate(events, 1):
        terms = terms_after(events[:number])
        required = "HUMAN" if passed_on else required_by(terms)
        name = f"event {event['id']} of transaction {row['id']}"
        kind, who = event["kind"], event["principal"]
        if who == proposer and kind not in OF_THE_PROPOSER:
            yield f"{name}: {kind} by the proposer."
        may_be_own = kind in VERDICTS or first.get("keeper_may_sign") is True
        if not may_be_own and who in says(event).get("proposer_kept_by", []):
            yield f"{name}: {kind} by who keeps the agent that proposed it."
        if kind == "canceled" and says(event).get("in_place_of", who) != proposer:
            yield f"{name}: canceled by somebody else."
        if kind in OF_THE_SYSTEM and not who.startswith("system:"):
            yield f"{name}: {kind} by {who}."
        before = events[: number - 1]
        yield from (f"{name}: {fault}" for fault in talk_faults(event, before, proposer))
        if kind == "advised":
            yield from (f"{name}: {fault}" for fault in advice_faults(event, before, required))
        if kind == "revised":
            yield from (f"{name}: {fault}" for fault in revised_faults(event, before))
            voters -= {vote["principal"] for vote in approvals}
            approvals = []
        if kind == "approval_withdrawn":
            others = [vote for vote in approvals if vote["principal"] != who]
            fill = [filled(each, terms, required, events[:number]) for each in (approvals, others)]
            is_idle = event["from_state"] == "prepared" and fill[0] == fill[1]
            why_not = withdrawal_faults(event, approvals, is_idle=is_idle)
            yield from (f"{name}: {fault}" for fault in why_not)
            approvals = others
            voters.discard(who)
        if kind == "claimed" and approvals and int(event["at"]) < not_before(approvals[-1]):
            yield f"{name}: begun while its approval could be withdrawn."
        latest = max((int(vote["at"]) for vote in approvals), default=0)
        if kind in ("claimed", "handed_over") and latest > int(event["at"]) + 60 * 10**6:
            yield f"{name}: begun before the time of an approval."
        if kind in VERDICTS:
            faults = list(vote_faults(event, before, required, voters))
            is_own = VERDICTS[kind] == "approve" and who in makers_in(before)
            if is_own and quorum_by(terms) > 1:
                faults.append("who changed it approved it, where two sign.")
            if not fits(event, terms):
                faults.append(f"the vote of {who} is not as the terms ask.")
            deadline = deadline_after(as_prepared, events[: number - 1])
            if not deadline.isdecimal() or int(event["at"]) > int(deadline):
                faults.append("a vote after the time was up.")
            yield from (f"{name}: {fault}" for fault in faults)
            voters.add(who)
            if not faults and VERDICTS[kind] == "approve":
                approvals.append(event)
            if kind == "passed_on":  # people decide from here on, and only they count
                passed_on = True
                approvals = [one for one in approvals if one["principal"].startswith("user:")]
        is_renewed = number > 1 and "terms" in says(event).get("sets", {})
        if is_renewed and not are_at_least(terms, terms_after(events[: number - 1])):
            yield f"{name}: it asks for less than before."
        if kind in AFTER_A_CLAIM and not was_claimed:
            yield f"{name}: {kind}, and nothing was ever carried out."
        was_claimed = was_claimed or kind == "claimed"
        if kind in NEEDS_SIGN_OFF and not is_enough(approvals, terms, required, events[:number]):
            yield f"{name}: there are not enough approvals."
    yield from settlement_faults(row, events)
    yield from deadline_faults(row, events)


def undo_us(vote: Record) -> int:
    """For how long an approval can be withdrawn, in microseconds; 0 where it cannot be."""
    seconds = says(vote).get("undo_seconds")
    return seconds * 10**6 if type(seconds) is int and 0 < seconds <= 60 else 0


def withdrawal_faults(event: Record, approvals: list[Record], *, is_idle: bool) -> Iterator[str]:
    own = [vote for vote in approvals if vote["principal"] == event["principal"]]
    if [says(vote)["decision_at"] for vote in own] != [says(event).get("decision_at")]:
        yield f"no approval of {event['principal']} is there to be withdrawn."
    elif int(event["at"]) > int(own[0]["at"]) + undo_us(own[0]) and not is_idle:
        yield "its time to be withdrawn was over."


def vote_of(event: Record) -> tuple[str, Any]:
    """The decision that the event seals, or withdraws."""
    return event["principal"], says(event).get("decision_at")


def withdrawn_in(events: list[Record]) -> set[tuple[str, Any]]:
    """The approvals that count no more: taken back, or of an earlier revision."""
    taken = {vote_of(event) for event in events if event["kind"] == "approval_withdrawn"}
    last = max((event["seq"] for event in revised_in(events)), default=0)
    earlier = [event for event in events if event["seq"] < last]
    return taken | {vote_of(e) for e in earlier if VERDICTS.get(e["kind"]) == "approve"}


def not_before(vote: Record) -> int:
    """The first instant at which a worker may begin, by this approval."""
    if vote["kind"] != "approved" or not undo_us(vote):
        return 0
    return int(outcome_after([vote])["decided_at"] or vote["at"]) + undo_us(vote)


def settlement_faults(row: Record, events: list[Record]) -> Iterator[str]:
    """Faults of settlements that need two operators: another one proposed the same before."""
    is_grave = row["consequence_level"] == "IRREVERSIBLE" or row["risk_level"] == "CRITICAL"
    is_grave = is_grave or (bool(events) and "settled_by_two" in says(events[0]))
    first: Record = {}
    for number, event in enumerate(events):
        kind, details = event["kind"], says(event)
        by_system = event["principal"].startswith("system:")
        if kind in WORDS and not (by_system and kind in ("committed", "disproved")):
            for fault in word_faults(event, events[:number]):
                yield f"event {event['id']} of transaction {event['subject']}: {fault}"
        if kind == "settlement_proposed":
            first = {**details, "by": event["principal"]}
        elif kind in ("settlement_declined", "retried", "retry_ordered"):
            first = {}
        elif kind in BY_WORD.values() and not event["principal"].startswith("system:"):
            needs_two = is_grave or "first_word_by" in details
            if needs_two and not is_second_word(event["principal"], kind, details, first):
                yield (
                    f"event {event['id']} of transaction {event['subject']}: {kind} by "
                    f"{event['principal']} alone."
                )
            first = {}


def word_faults(event: Record, before: list[Record]) -> Iterator[str]:
    """Faults of an operator's word that has to be signed, or says that it was."""
    kind, details = event["kind"], says(event)
    if "assertion" not in details:
        if terms_after(before).get("strength") == "passkey":
            yield f"{kind} by {event['principal']}, not signed with a passkey."
        return
    verdict, receipt = details.get("verdict"), details.get("receipt", "")
    if details.get("intent_digest") != sealed_last(before, "intent_digest"):
        yield "the settlement is of something else."
    is_of_kind = kind == "settlement_proposed" or BY_WORD.get(str(verdict)) == kind
    if not is_of_kind or details.get("outcome", verdict) != verdict:
        yield "what was signed is another outcome."
    sets = details.get("sets")
    if isinstance(sets, dict) and sets.get("receipt", receipt) != receipt:
        yield "what was signed has another receipt."


def is_second_word(who: str, kind: str, details: Record, first: Record) -> bool:
    return (
        bool(first)
        and who != first["by"] == details.get("first_word_by")
        and BY_WORD.get(first.get("outcome", "")) == kind
        and details.get("outcome", first.get("outcome")) == first.get("outcome")
        and details.get("receipt", first.get("receipt")) == first.get("receipt")
    )


def voter_of(event: Record) -> str:
    """The vote's holder: agents that one person keeps have one together, which is that person's."""
    who, details = event["principal"], says(event)
    if who.startswith("agent:") and "kept_by" in details:
        return details["kept_by"] or "agents without a keeper"
    return str(who)


def vote_faults(
    event: Record, before: list[Record], required: str, voters: set[str]
) -> Iterator[str]:
    details, who, first = says(event), event["principal"], says((before or [event])[0])
    if details.get("intent_digest") != sealed_last(before, "intent_digest"):
        yield "a vote on something else."
    if details.get("verdict") != VERDICTS[event["kind"]]:
        yield "the verdict is not that of the move."
    if who in voters:
        yield f"a second vote of {who}."
    kind = who.partition(":")[0]
    may = kind in KINDS.get(required, set())
    may = may and (event["kind"] != "passed_on" or kind == "agent")
    if not may or (kind == "system" and who != "system:policy"):
        yield f"the contract takes no vote of {who}."
    keepers = details.get("proposer_kept_by", [])
    is_own = voter_of(event) in [*keepers, *["agents without a keeper"] * bool(keepers)]
    is_no = VERDICTS[event["kind"]] in REFUSALS
    if is_own and not is_no and first.get("keeper_may_sign") is not True:
        yield f"a vote of {who}, for who keeps the agent that proposed it."
    required = first.get("required_policy", "")
    cited = (details.get("policy") or {}).get("sha256", "")
    is_approval = VERDICTS[event["kind"]] == "approve"
    if required and is_approval and kind == "agent" and cited != required:
        yield f"{who} approved it without the policy of the contract."


# --- terms ------------------------------------------------------------------------------------

BUILT_IN = ("approvers", "supervisors")
STRENGTHS = ("click", "typed", "passkey")


def terms_after(events: list[Record]) -> Record:
    """Those that rules made last, else those of the contract."""
    for event in reversed(events):
        sets = says(event).get("sets")
        if isinstance(sets, dict) and "terms" in sets:
            terms = json.loads(sets["terms"])
            return terms if isinstance(terms, dict) else {"deny": True}
    first = says(events[0])
    quorum, required = first.get("quorum"), first.get("required_approver")
    if type(quorum) is not int or required not in KINDS:
        return {"deny": True}
    group = {"HUMAN": "approvers", "SUPERVISOR": "supervisors"}.get(required)
    return {"seats": {group: quorum}} if group else {}


def are_at_least(new: Record, before: Record) -> bool:
    """No later terms are looser than those before, nor of another contract."""
    same = all(new.get(p) == before.get(p, parts_of(before)) for p in ("contract", "floor"))
    return same and joined(parts_of(new), before) == joined(parts_of(new), {})


def required_by(terms: Record) -> str:
    seats = set(terms.get("seats", {}))
    if not seats:
        return "NONE"
    return "SUPERVISOR" if seats == {"supervisors"} else "HUMAN"


def quorum_by(terms: Record) -> int:
    seats: dict[str, int] = terms.get("seats", {})
    of_groups = sum(number for group, number in seats.items() if group not in BUILT_IN)
    return max([1, of_groups, *(seats.get(group, 0) for group in BUILT_IN)])


def fits(vote: Record, terms: Record) -> bool:
    """An approval is given as the terms ask; where nobody has to sign, they ask for nothing."""
    if VERDICTS[vote["kind"]] != "approve" or not terms.get("seats"):
        return True
    return (
        (not terms.get("desk_only") or vote["via"] in ("web", "grant"))
        and (not terms.get("note") or vote["reason_digest"] != digest(""))
        and (not terms.get("one_by_one") or says(vote).get("together", 1) == 1)
        and is_as_strong(vote, terms.get("strength", "click"))
    )


def is_as_strong(vote: Record, strength: str) -> bool:
    """What was signed stands for typing; whether the signature is one is judged apart."""
    details = says(vote)
    is_typed = strength == "typed" and details.get("typed") is True
    is_signed = "assertion" in details or is_signed_in_advance(vote)
    return strength == "click" or is_signed or is_typed


def is_signed_in_advance(vote: Record) -> bool:
    return vote["via"] == "grant" and says(vote).get("signed_in_advance") is True


def is_enough(approvals: list[Record], terms: Record, required: str, events: list[Record]) -> bool:
    if terms.get("deny"):
        return False
    if required == "NONE" and any(vote["principal"] == "system:policy" for vote in approvals):
        return True
    return filled(approvals, terms, required, events) >= quorum_by(terms)


def filled(approvals: list[Record], terms: Record, required: str, events: list[Record]) -> int:
    """The most seats that the voters of these approvals fill."""
    voters = {
        voter_of(vote): seats_for(vote, terms, events)
        for vote in approvals
        if vote["principal"].partition(":")[0] in KINDS[required] and fits(vote, terms)
    }
    if quorum_by(terms) > 1:
        voters = {voter: own for voter, own in voters.items() if voter not in makers_in(events)}
    seats = [
        group
        for group, number in terms.get("seats", {}).items()
        for _ in range(number)
        if group not in BUILT_IN
    ]
    seated = most_seated(seats, [*voters.values()])
    return seated + min(len(voters) - seated, quorum_by(terms) - len(seats))


def seats_for(vote: Record, terms: Record, events: list[Record]) -> list[str]:
    """The voter's groups, and those in whose place they may sign after so long a time."""
    if says(vote).get("break_glass") is True:
        return list(terms.get("seats", {}))
    at, own = int(vote["at"]), says(vote).get("groups", [])
    put_off = put_off_us([event for event in events if int(event["at"]) <= at])
    waited = at - int(events[0]["at"]) - put_off
    widened = [
        group
        for group, others in terms.get("widen", {}).items()
        for name, seconds in others.items()
        if waited >= seconds * 10**6 and (name == "approvers" or name in own)
    ]
    return [*own, *widened]


def most_seated(seats: list[str], voters: list[list[str]]) -> int:
    """How many voters find a seat of a group that they may fill, each another one."""
    taken: dict[int, int] = {}

    def find_seat(voter: int, tried: set[int]) -> bool:
        for place, group in enumerate(seats):
            if group not in voters[voter] or place in tried:
                continue
            tried.add(place)
            if place not in taken or find_seat(taken[place], tried):
                taken[place] = voter
                return True
        return False

    return sum(find_seat(voter, set()) for voter in range(len(voters)))


def joined(first: Record, second: Record) -> Record:
    """The stricter of both, part by part; without what asks for nothing."""
    seats = dict(first.get("seats", {}))
    for group, number in second.get("seats", {}).items():
        seats[group] = max(number, seats.get(group, 0))
    widen = {}
    for group in {*first.get("widen", {}), *second.get("widen", {})}:
        ways = [
            terms.get("widen", {}).get(group, {})
            for terms in (first, second)
            if group in terms.get("seats", {})
        ]
        both = {name: max(way[name] for way in ways) for name in ways[0] if name in ways[-1]}
        if both:
            widen[group] = both
    strengths = [STRENGTHS.index(terms.get("strength", "click")) for terms in (first, second)]
    return {
        **({"seats": seats} if seats else {}),
        **({"widen": widen} if widen else {}),
        **({"strength": STRENGTHS[max(strengths)]} if max(strengths) else {}),
        **{
            part: True
            for part in ("desk_only", "note", "one_by_one", "deny")
            if first.get(part) or second.get(part)
        },
    }


def parts_of(terms: Record) -> Record:
    return {
        name: terms[name]
        for name in ("seats", "widen", "strength", "desk_only", "note", "one_by_one", "deny")
        if name in terms
    }


RISKS = ("LOW", "MEDIUM", "HIGH", "CRITICAL")


def compared(fact: str, operator: str, wanted: Any, row: Record) -> bool | None:
    """True, false, or nothing where the fact is not known."""
    if fact == "amount":
        limit, currency = wanted.split(" ")
        if row["amount"] is None or row["currency"] != currency:
            return None
        return is_within(Decimal(row["amount"]), operator, limit)
    if fact.startswith("arguments."):
        value = row["arguments"].get(fact.removeprefix("arguments."))
        if operator in ("below", "at_most", "at_least"):
            return compared_number(value, operator, wanted)
        if value is None or isinstance(value, dict | list):
            return None
        text = as_compared(value)
        if text not in wanted and folded(text) in map(folded, wanted):
            return None
        return (text in wanted) is (operator == "is")
    if operator == "at_least":
        return RISKS.index(row["risk_level"]) >= RISKS.index(wanted)
    proposer = row["proposed_by"]
    names = {
        "tool": row["tool"],
        "agent": proposer.rpartition("/")[2] if proposer.startswith("agent:") else proposer,
        "risk": row["risk_level"],
        "consequence": row["consequence_level"],
    }
    return (names[fact] in wanted) is (operator == "is")


def folded(text: str) -> str:
    """Without differences of case, white space, width, and of how a number is written."""
    text = " ".join(unicodedata.normalize("NFKC", text).split()).casefold()
    try:
        return str(Decimal(text).normalize() + 0)
    except ArithmeticError:
        return text


def as_compared(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{Decimal(str(value)).normalize() + 0:f}"
    return str(value)


def compared_number(value: Any, operator: str, wanted: str) -> bool | None:
    try:
        number = Decimal(str(value))
    except ArithmeticError:
        return None
    if isinstance(value, bool) or not number.is_finite():
        return None
    return is_within(number, operator, wanted)


def is_within(number: Decimal, operator: str, limit: str) -> bool:
    if operator == "at_most":
        return number <= Decimal(limit)
    return (number < Decimal(limit)) is (operator == "below")


def terms_of(then: Record, *, is_known: bool = True) -> Record:
    """The terms of a rule. What loosens counts only where all that it compares is known."""
    seats = {"approvers": 1} if then["verdict"] == "ask" else {}
    deny = {"deny": True} if then["verdict"] == "deny" else {}
    parts = {"seats": seats, **parts_of(then), **deny}
    later = parts.pop("widen", None)
    if later and is_known:
        others = {later["to"]: later["after_minutes"] * 60}
        parts["widen"] = {g: others for g in parts["seats"] if g not in BUILT_IN}
    return parts


def judged(
    rules: list[Record], row: Record, contract: Record, floor: Record
) -> tuple[list[int], Record, Record, list[Limits]]:
    """The rules that match, and the terms that they make with the contract.

    Then the terms if none let it pass, and the budgets of those that do, where these differ.
    """
    matched: list[int] = []
    asked: Record = {}
    is_let_pass = False
    limits: list[Limits] = []
    may_pass = row["risk_level"] in RISKS[:2] and row["consequence_level"] != "IRREVERSIBLE"
    for number, rule in enumerate(rules, 1):
        truths = [
            compared(fact, operator, wanted, row)
            for fact, comparisons in rule.get("when", {}).items()
            for operator, wanted in comparisons.items()
        ]
        then = rule["then"]
        if then["verdict"] == "pass":
            budgets = then.get("budgets", [])
            if all(truths) and may_pass and all(part_of(each, row) for each in budgets):
                matched.append(number)
                is_let_pass = True
                limits.append((f"rule:{digest(canonical(rule.get('when', {})))[:32]}", budgets))
        elif False not in truths:
            matched.append(number)
            asked = joined(asked, terms_of(then, is_known=None not in truths))
    strict, terms = joined(contract, asked), joined(floor if is_let_pass else contract, asked)
    return matched, terms, strict, limits if terms != strict else []


def ends_signing(before: list[Record], after: list[Record]) -> bool:
    """A rule that asks for a passkey is gone, and none asks for at least as much."""
    asking = [rule for rule in after if rule["then"]["verdict"] != "pass"]
    return any(
        rule["then"].get("strength") == "passkey"
        and not any(replaces(other, rule) for other in asking)
        for rule in before
    )


def replaces(other: Record, rule: Record) -> bool:
    """The other one holds wherever this one did, and is as strict."""
    when, others = rule.get("when", {}), other.get("when", {})
    own, terms = joined(terms_of(rule["then"]), {}), joined(terms_of(other["then"]), {})
    is_as_strict = joined(terms, own) == terms
    widens_less = "widen" not in other["then"] or when == others
    return is_as_strict and widens_less and others.items() <= when.items()


class RuleSets:
    """Activated rules and what was judged by them, gathered while the export is read."""

    def __init__(self) -> None:
        self.active: dict[str, list[tuple[int, int]]] = {}
        self.rules: dict[tuple[str, int], list[Record]] = {}
        # The row, what was proposed at first, and how both were judged.
        self.judged: list[tuple[Record, Record | None, list[tuple[str, int, Record]]]] = []
        # By tenant, group and person: the times between which somebody was a member.
        self.members: dict[tuple[str, str, str], list[list[int]]] = {}
        self.votes: list[Record] = []

    def read(self, history: History) -> None:
        for event in history.events:
            if event["kind"] == ACTIVATED:
                details, tenant = says(event), event["tenant"]
                if event["subject"] == str(uuid5(ACCOUNTS, f"rules:{tenant}")):
                    self.active.setdefault(tenant, []).append((int(event["at"]), details["number"]))
                    self.rules[tenant, details["number"]] = details["rules"]
            self.read_member(event)
            if event["kind"] in VERDICTS and says(event).get("groups"):
                self.votes.append(event)
        if history.family == "transaction" and history.rows and history.events:
            proposed = as_of(history.rows[0], history.revisions, history.events, 1)
            self.judged.append((history.rows[0], proposed, judgements_in(history.events)))

    def read_member(self, event: Record) -> None:
        details, tenant = says(event), event["tenant"]
        group = str(details.get("subject", "")).removeprefix(f"group:{tenant}/")
        if event["subject"] != str(uuid5(ACCOUNTS, f"group:{tenant}/{group}")):
            return
        if event["kind"] == "group_member_added":
            begin = max(int(details["starts_at"]), int(event["at"]))
            end = int(details["ends_at"] or 2**63)
            who = event["principal"]
            # An operator alone makes nobody a member: another one asked for it.
            if not who.startswith("system:") and details.get("asked_by", who) == who:
                end = 0
            times = self.members.setdefault((tenant, group, details["person"]), [])
            times.append([begin, end])
        elif event["kind"] == "group_member_removed":
            last = self.members[tenant, group, details["person"]][-1]
            last[1] = min(last[1], int(event["at"]))

    def was_member(self, vote: Record, group: str) -> bool:
        at = int(vote["at"])
        times = self.members.get((vote["tenant"], group, vote["principal"]), [])
        return any(begin <= at + TOLERANCE_US and end >= at - TOLERANCE_US for begin, end in times)

    def faults(self) -> Iterator[str]:
        for vote in self.votes:
            for group in says(vote)["groups"]:
                if not self.was_member(vote, group):
                    yield (
                        f"event {vote['id']} of transaction {vote['subject']}: "
                        f"{vote['principal']} was not in {group}."
                    )
        for row, proposed, judgements in self.judged:
            for kind, at, terms in judgements:
                number = terms.get("set", 0)
                if not self.was_active(row["tenant"], number, at) and (terms or kind == "prepared"):
                    yield f"transaction {row['id']}: rules {number} were not active at {kind}."
            if row["terms"] is not None:
                for fault in self.terms_faults(row, row["terms"]):
                    yield f"transaction {row['id']}: {fault}"
            _, at, first = judgements[0]
            taken = first.get("charges", [])
            if any(terms.get("charges", []) != taken for *_, terms in judgements):
                yield f"transaction {row['id']}: later terms took something else of budgets."
            if first and row["content_erased_at"] is None and row["state"] != "refused":
                rules = self.rules.get((row["tenant"], first["set"]), [])
                rules = [] if first.get("unreadable") else rules
                at_first = proposed or row
                *_, strict, limits = judged(rules, at_first, first["contract"], first["floor"])
                asks_all = joined(parts_of(first), strict) == joined(parts_of(first), {})
                if not are_taken(taken, [] if asks_all else limits, at_first, at):
                    yield f"transaction {row['id']}: it did not take what its rules charge."

    def terms_faults(self, row: Record, terms: Record) -> Iterator[str]:
        if (row["required_approver"], row["quorum"]) != (required_by(terms), quorum_by(terms)):
            yield "its approvers are not those of its terms."
        # Without rules the contract alone asks for it.
        rules = self.rules.get((row["tenant"], terms["set"]), None if terms["set"] else [])
        if row["content_erased_at"] is not None or row["state"] == "refused":
            return
        if terms.get("unreadable"):
            rules = [] if rules is None else [{"then": {"verdict": "deny"}}]
        matched, asked, *_ = judged(rules or [], row, terms["contract"], terms["floor"])
        strict = joined(parts_of(terms), asked) == joined(parts_of(terms), {})
        if matched != terms["rules"] or not strict or (rules is None):
            yield "its terms are not what the rules make of it."

    def was_active(self, tenant: str, number: int, at: int) -> bool:
        steps = [(0, 0), *self.active.get(tenant, [])]
        ends = [begin for begin, _ in steps[1:]] + [at]
        return any(
            each == number and begin <= at + TOLERANCE_US and end >= at - TOLERANCE_US
            for (begin, each), end in zip(steps, ends, strict=True)
        )


def judgements_in(events: list[Record]) -> list[tuple[str, int, Record]]:
    """Kind, time and terms of the first event and of each that set terms."""
    found = []
    for event in events:
        sets = says(event).get("sets", {})
        if event is events[0] or "terms" in sets:
            terms = json.loads(sets.get("terms", "null")) or {}
            found.append((event["kind"], int(event["at"]), terms))
    return found


def decision_faults(decisions: list[Record], events: list[Record]) -> Iterator[str]:
    votes = {vote_of(event): event for event in events if event["kind"] in VERDICTS}
    withdrawn = withdrawn_in(events)
    for decision in decisions:
        name = f"decision {decision['id']} of transaction {decision['transaction_id']}"
        vote = (decision["principal"], decision["at"])
        event = votes.pop(vote, None)
        if event is None:
            yield f"{name} was never sealed."
            continue
        details = says(event)
        sealed = (details.get("verdict"), details.get("intent_digest"), details.get("decision_at"))
        plain = ("principal_name", "via", "reason")
        if (details.get("kept_by", ""), details.get("policy"), details.get("grant")) != (
            decision.get("kept_by", ""),
            decision.get("policy"),
            decision.get("grant_id"),
        ) or (*sealed, *(event[c] for c in plain)) != (
            decision["verdict"],
            decision["intent_digest"],
            decision["at"],
            *(decision[c] for c in plain),
        ):
            yield f"{name} is not what event {event['id']} sealed."
        if bool(decision.get("is_withdrawn")) != (vote in withdrawn):
            yield f"{name}: its events say something else of whether it was withdrawn."
    for event in votes.values():
        yield f"event {event['id']} of transaction {event['subject']} has lost its decision."


# --- rows that events name ---------------------------------------------------------------------


def permit_faults(permits: list[Record], events: list[Record]) -> Iterator[str]:
    issued = {str(says(e).get("permit")) for e in events if e["kind"] == "permit_issued"}
    claims = {str(says(e).get("permit")): says(e) for e in events if e["kind"] == "claimed"}
    rows = {permit["jti"]: permit for permit in permits}
    for jti in issued ^ set(rows):
        yield f"permit {jti}: its row or the event that issued it is missing."
    for jti, permit in rows.items():
        redeemed_by = permit["redeemed_by"] if permit["redeemed_at"] is not None else None
        if redeemed_by != claims.get(jti, {}).get("redeemed_by"):
            yield f"permit {jti} was not redeemed as its events say."


def document_faults(
    versions: list[Record], policies: list[Record], cited: set[tuple[str, ...]]
) -> Iterator[str]:
    for version in versions:
        if digest(canonical(version["manifest"])) != version["sha256"]:
            yield f"tool_version {version['sha256']} is not the manifest of its hash."
    kept = set()
    for policy in policies:
        kept.add(tuple(policy[name] for name in ("tenant", "name", "version", "sha256")))
        if digest(policy["text"]) != policy["sha256"]:
            yield f"policy {policy['name']} {policy['version']} is not the text of its hash."
    for tenant, name, number, sha in sorted(cited - kept):
        yield f"policy {name} {number} ({sha}) of {tenant} was cited, and is not kept."


# --- rights of people -------------------------------------------------------------------------

ACCOUNTS = UUID("0f1d2c5e-6a43-5a0c-9a58-7f6d1f1b9f3e")
TOLERANCE_US = 60_000_000
BRAKE_TOLERANCE_US = 5 * 10**6
OF_DECIDERS = frozenset({"revised", "asked", "extended"})
ACTIVATED = "rules_activated"
BEGINNINGS = frozenset({"claimed", "handed_over", "permit_issued"})
NO_RIGHTS: Record = {"is_active": False, "is_staff": False, "is_superuser": False, "roles": []}
FLAGS = {
    "user_created": ("is_active", True),
    "user_activated": ("is_active", True),
    "user_deactivated": ("is_active", False),
    "staff_granted": ("is_staff", True),
    "staff_revoked": ("is_staff", False),
    "superuser_granted": ("is_superuser", True),
    "superuser_revoked": ("is_superuser", False),
}


def rights_after(events: list[Record]) -> Iterator[tuple[int, Record]]:
    """The rights of an account from each of its events on."""
    rights = NO_RIGHTS
    for event in events:
        role = [event["tenant"], says(event).get("role")]
        if event["kind"] in FLAGS:
            flag, value = FLAGS[event["kind"]]
            rights = {**rights, flag: value}
        elif event["kind"] in ("role_granted", "role_revoked"):
            others = [held for held in rights["roles"] if held != role]
            granted = [role] if event["kind"] == "role_granted" else []
            rights = {**rights, "roles": sorted(others + granted)}
        yield int(event["at"]), rights


def role_for(event: Record) -> str:
    """The role that it takes; operators sign rules that end that something is signed."""
    details = says(event)
    if event["kind"] == ACTIVATED and "assertion" in details:
        return "operator"
    if event["kind"] not in {*VERDICTS, *OF_DECIDERS}:
        return ""
    return "operator" if details.get("break_glass") is True else "approver"


class Rights:
    """Sealed changes of accounts and votes of people, gathered while the export is read."""

    def __init__(self) -> None:
        self.steps: dict[str, list[tuple[int, Record]]] = {}
        self.votes: list[Record] = []

    def read(self, history: History) -> None:
        events = history.events
        if history.family == "account":
            self.steps[history.subject] = list(rights_after(events))
        self.votes += [
            {name: event[name] for name in ("id", "kind", "subject", "principal", "tenant", "at")}
            | {"role": role}
            for event in events
            if (role := role_for(event)) and event["principal"].startswith("user:")
        ]

    def faults(self, accounts: list[Record]) -> Iterator[str]:
        for account in accounts:
            sealed = self.steps.get(account["id"], [(0, NO_RIGHTS)])[-1][1]
            if account["id"] != str(uuid5(ACCOUNTS, account["principal"])) or any(
                account[name] != value for name, value in sealed.items()
            ):
                yield f"account {account['id']} may do what its events do not say."
        for vote in self.votes:
            if not self.had_role(vote):
                name = "rules" if vote["kind"] == ACTIVATED else "transaction"
                yield f"event {vote['id']} of {name} {vote['subject']}: by no {vote['role']}."

    def had_role(self, vote: Record) -> bool:
        steps = self.steps.get(str(uuid5(ACCOUNTS, vote["principal"])), [])
        at, role = int(vote["at"]), [vote["tenant"], vote["role"]]
        ends = [begin for begin, _ in steps[1:]] + [at]
        return any(
            rights["is_active"]
            and (role in rights["roles"] or (vote["kind"] == ACTIVATED and rights["is_superuser"]))
            and begin <= at + TOLERANCE_US
            and end >= at - TOLERANCE_US
            for (begin, rights), end in zip(steps, ends, strict=False)
        )


# --- signatures of people ----------------------------------------------------------------------

ENROLLED = "signing_key_enrolled"
ENDS_KEYS = {"signing_key_ended", "passkey_removed", "access_reset"}
KEY_EVENTS = {ENROLLED, *ENDS_KEYS, "change_requested"}
OF_KEY = {"credential", "public_key", "rp_id", "origin"}
OF_ASSERTION = {"credential", "authenticator_data", "client_data", "signature", "nonce"}
LONGEST = 4_000  # characters of a member
PRESENT, VERIFIED, HAS_MORE = 0x01, 0x04, 0xC0  # flags of an authenticator


def from_base64url(text: str) -> bytes:
    """Without padding, exactly as it must be written."""
    raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if base64.urlsafe_b64encode(raw).decode().rstrip("=") != text:
        raise ValueError(f"{text!r:.80} is no base64url.")
    return raw


# Where the COSE key (RFC 9052) of each algorithm that signs begins: it has one form, byte by byte.
ES256, EDDSA, RS256 = map(
    bytes.fromhex, ("a5010203262001215820", "a4010103272006215820", "a40103033901002059")
)
Y_FOLLOWS, ENDS_RS256 = bytes.fromhex("225820"), bytes.fromhex("2143010001")


def public_key_of(
    text: str,
) -> ec.EllipticCurvePublicKey | rsa.RSAPublicKey | Ed25519PublicKey:
    raw = from_base64url(text)
    if raw[:10] == ES256 and raw[42:45] == Y_FOLLOWS:
        point = b"\x04" + raw[10:42] + raw[45:]
        return ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point)
    if raw[:10] == EDDSA:
        return Ed25519PublicKey.from_public_bytes(raw[10:])
    size = int.from_bytes(raw[9:11], "big")
    if raw[:9] == RS256 and size in (256, 384, 512) and raw[11 + size :] == ENDS_RS256:
        return rsa.RSAPublicNumbers(65537, int.from_bytes(raw[11:-5], "big")).public_key()
    raise ValueError("no key that signs decisions")


def has_signed(public_key: Any, message: bytes, signature: bytes) -> bool:
    try:
        if isinstance(public_key, ec.EllipticCurvePublicKey):
            public_key.verify(signature, message, ec.ECDSA(SHA256()))
        elif isinstance(public_key, rsa.RSAPublicKey):
            public_key.verify(signature, message, PKCS1v15(), SHA256())
        else:
            public_key.verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


def assertion_faults(assertion: Any, statement: Record, key: Record) -> Iterator[str]:
    """The key, verifying its person, signed the challenge that the statement makes."""
    try:
        are_texts = all(isinstance(t, str) and len(t) <= LONGEST for t in assertion.values())
        if set(assertion) != OF_ASSERTION or not are_texts:
            raise ValueError("members")
        parts = {name: from_base64url(assertion[name]) for name in OF_ASSERTION - {"nonce"}}
        data, client = parts["authenticator_data"], json.loads(parts["client_data"])
        made_for, made_at = client["type"], client["origin"]
        challenge = from_base64url(client["challenge"])
        public_key = public_key_of(key["public_key"])
        wanted = hashlib.sha256(canonical(statement).encode()).digest()
        flags = data[32]
        if len(data) < 37 or (len(data) > 37) is not bool(flags & HAS_MORE):
            raise ValueError("length")
    except UNREADABLE:
        yield "its assertion cannot be read."
        return
    if assertion["credential"] != key["credential"]:
        yield "its assertion names another key."
    if made_for != "webauthn.get" or client.get("crossOrigin", False) is not False:
        yield "its assertion is not for signing here."
    if made_at != key["origin"] or data[:32] != hashlib.sha256(key["rp_id"].encode()).digest():
        yield "its assertion was made for another address."
    if challenge != wanted:
        yield "its assertion is of something else."
    if not (flags & PRESENT and flags & VERIFIED):
        yield "its assertion does not say that the key verified its person."
    signed = data + hashlib.sha256(parts["client_data"]).digest()
    if not has_signed(public_key, signed, parts["signature"]):
        yield "its signature is not of this key."


def statement_of(event: Record, before: list[Record]) -> Record:
    """What is signed by who decides on what the transaction is after the events before."""
    details, terms = says(event), parts_of(terms_after(before))
    return {
        "tenant": before[0]["tenant"],
        "transaction": before[0]["subject"],
        "revision": len(revised_in(before)) + 1,
        "intent_digest": details.get("intent_digest"),
        "verdict": details.get("verdict"),
        "terms": {part: asked for part, asked in terms.items() if asked and asked != "click"},
        "nonce": nonce_of(event),
        **({"receipt": details["receipt"]} if details.get("receipt") else {}),
    }


def statement_of_grant(event: Record) -> Record:
    details = says(event)
    names = {*GRANT, "transaction", "ends_at"} & details.keys()
    parts = {name: details[name] for name in names} | {"reason_digest": event["reason_digest"]}
    return {
        "tenant": event["tenant"],
        "transaction": details.get("transaction", ""),
        "verdict": "grant",
        "grant": digest(canonical(parts)),
        "nonce": nonce_of(event),
    }


def statement_of_activation(event: Record) -> Record:
    parts = {name: says(event).get(name) for name in ("number", "in_place_of", "rules")}
    return {
        "tenant": event["tenant"],
        "verdict": "activate",
        "rules": digest(canonical(parts)),
        "nonce": nonce_of(event),
    }


def nonce_of(event: Record) -> Any:
    assertion = says(event).get("assertion")
    return assertion.get("nonce") if isinstance(assertion, dict) else None


def keys_after(events: list[Record]) -> tuple[dict[str, Record], list[str]]:
    """The keys of an account after these events of it, by credential; and the faults of those.

    ``from`` is in microseconds, ``by`` are the events of those who enrolled it.
    """
    keys: dict[str, Record] = {}
    faults: list[str] = []
    asked: list[Record] = []
    for event in events:
        key = says(event).get("key")
        if event["kind"] == ENROLLED:
            requests = requests_for(event, asked)
            found = [*read_of(enrolment_faults(event, keys, requests))]
            faults += [f"event {event['id']} of account {event['subject']}: {f}" for f in found]
            if not found and isinstance(key, dict):
                begin = int(event["at"]) + max(0, says(event)["waits_s"]) * 10**6
                by = [event, *requests[-1:]]
                keys[key["credential"]] = {**key, "from": begin, "has_ended": False, "by": by}
        elif event["kind"] in ENDS_KEYS:
            credential = key.get("credential") if isinstance(key, dict) else None
            for each in keys.values():
                each["has_ended"] |= (
                    event["kind"] == "access_reset" or each["credential"] == credential
                )
        elif event["kind"] == "change_requested":
            asked.append(event)
    return keys, faults


def requests_for(event: Record, asked: list[Record]) -> list[Record]:
    """The requests of the operator who asked for this enrolment."""
    wanted = (says(event).get("asked_by"), ENROLLED, says(event).get("key"))
    return [
        each
        for each in asked
        if (each["principal"], says(each).get("change"), says(each).get("key")) == wanted
    ]


def enrolment_faults(
    event: Record, keys: dict[str, Record], requests: list[Record]
) -> Iterator[str]:
    """A key of the person signed the new one, or two operators said the same."""
    details, who = says(event), event["principal"]
    key = details.get("key")
    if not isinstance(key, dict) or set(key) != OF_KEY or type(details.get("waits_s")) is not int:
        yield "it enrols no key."
        return
    public_key_of(key["public_key"])
    if key["credential"] in keys or not all(isinstance(part, str) for part in key.values()):
        yield "it enrols a key for the second time, or none."
    is_own = event["subject"] == str(uuid5(ACCOUNTS, who))
    if "assertion" in details:
        if not is_own:
            yield "another than the person enrolled its key with one of theirs."
        statement = {"account": who, "verdict": "enrol", "key": key, "nonce": nonce_of(event)}
        yield from signing_faults(event, statement, keys)
    elif is_own or details.get("asked_by") == who or not who.startswith("user:") or not requests:
        yield "no two operators enrolled its key."


def key_then(event: Record, keys: dict[str, Record]) -> Record:
    """The key among these that signed the event; empty if it could not sign then."""
    key = keys.get(str(says(event)["assertion"]["credential"]), {})
    # Whatever its time says, nothing counts that comes after what ended the key.
    return key if key and key["from"] <= int(event["at"]) and not key["has_ended"] else {}


def signing_faults(event: Record, statement: Record, keys: dict[str, Record]) -> Iterator[str]:
    if key := key_then(event, keys):
        yield from assertion_faults(says(event)["assertion"], statement, key)
    else:
        yield "it is signed with no key with which its maker could sign then."


class Signatures:
    """Keys and what was signed with them, gathered while the export is read."""

    def __init__(self) -> None:
        self.chains: dict[str, list[Record]] = {}
        # Who should have signed, the event of what, and the statement.
        self.signed: list[tuple[str, Record, Record]] = []
        self.activations: dict[str, list[Record]] = {}
        self.uses: dict[tuple[str, str], list[tuple[int, int]]] = {}
        self.folds: dict[tuple[str, int], dict[str, Record]] = {}

    def read(self, history: History) -> None:
        for number, event in enumerate(history.events):
            kind, details = event["kind"], says(event)
            if kind in KEY_EVENTS:
                self.chains.setdefault(history.subject, []).append(event)
            if kind == ACTIVATED:
                self.activations.setdefault(history.subject, []).append(event)
            if "assertion" not in details:
                continue
            self.read_use(event, details["assertion"])
            if kind == "grant_given":
                by = str(details.get("given_by"))
                self.signed.append((by, event, statement_of_grant(event)))
            if kind in VERDICTS or kind in WORDS:
                statement = statement_of(event, history.events[:number])
                self.signed.append((event["principal"], event, statement))

    def read_use(self, event: Record, assertion: Any) -> None:
        try:
            counter = int.from_bytes(from_base64url(assertion["authenticator_data"])[33:37], "big")
            uses = self.uses.setdefault((event["principal"], assertion["credential"]), [])
            uses.append((event["id"], counter))
        except UNREADABLE:
            return  # a fault of what it signed

    def keys_before(self, who: str, event: Record) -> dict[str, Record]:
        chain = self.chains.get(str(uuid5(ACCOUNTS, who)), [])
        before = [each for each in chain if each["id"] < event["id"]]
        if (who, len(before)) not in self.folds:
            self.folds[who, len(before)] = keys_after(before)[0]
        return self.folds[who, len(before)]

    def activation_faults(self) -> Iterator[str]:
        """Whoever ends that something is signed signs the rules that do, at their place."""
        for subject, events in self.activations.items():
            first = {"number": 0, "rules": []}
            before = first
            for former, event in pairwise([{"details": canonical(first)}, *events]):
                found = [*read_of(self.faults_between(before, says(former), event))]
                if subject != str(uuid5(ACCOUNTS, f"rules:{event['tenant']}")):
                    found.append("they are of another tenant.")
                before = before if found else says(event)
                name = f"event {event['id']}, which activates rules"
                yield from (f"{name}: {fault}" for fault in found)

    def faults_between(self, before: Record, former: Record, event: Record) -> Iterator[str]:
        """``former`` is what the last event says, ``before`` the last one without a fault."""
        details = says(event)
        if not details["in_place_of"] == former["number"] < details["number"]:
            yield "they do not follow those before them."
        if ends_signing(before["rules"], details["rules"]):
            statement = statement_of_activation(event)
            # It counts once, as its number is in what is signed.
            keys = self.keys_before(event["principal"], event)
            yield from signing_faults(event, statement, keys)

    def faults(self) -> Iterator[str]:
        for chain in self.chains.values():
            yield from keys_after(chain)[1]
        counted: set[tuple[str, str]] = set()
        for who, event, statement in sorted(self.signed, key=lambda each: int(each[1]["id"])):
            is_grant = event["kind"] == "grant_given"
            family = "grant" if is_grant else "transaction"
            name = f"event {event['id']} of {family} {event['subject']}"
            found = read_of(signing_faults(event, statement, self.keys_before(who, event)))
            yield from (f"{name}: {fault}" for fault in found)
            once = (event["principal" if is_grant else "subject"], str(nonce_of(event)))
            if once in counted:
                yield f"{name}: what was signed counted before."
            counted.add(once)
        yield from self.activation_faults()
        for (who, _credential), uses in self.uses.items():
            for (_before, former), (event_id, counter) in pairwise(sorted(uses)):
                if counter <= former and (counter or former):
                    yield f"event {event_id}: the counter of a key of {who} went back."


class Stops:
    """Sealed brakes and the deadlines that were moved, gathered while the export is read."""

    def __init__(self) -> None:
        self.brakes: list[list[Record]] = []
        self.moved: list[tuple[Record, Record, int]] = []
        self.begun: list[tuple[Record, Record]] = []

    def read(self, history: History) -> None:
        events = history.events
        if events and events[0]["kind"] == "brake_put":
            self.brakes.append(events)
        if history.family != "transaction" or not history.rows:
            return
        row = history.rows[0]
        self.begun += [(row, event) for event in events if event["kind"] in BEGINNINGS]
        self.moved += [
            (row, event, put_off_us(events[: number + 1]))
            for number, event in enumerate(events)
            if event["kind"] == "deadline_moved"
        ]

    def faults(self) -> Iterator[str]:
        for row, event in self.begun:
            at = int(event["at"])
            for begin, end in map(span_of, filter(lambda one: is_over(one, row), self.brakes)):
                if begin + BRAKE_TOLERANCE_US < at <= end:
                    yield f"event {event['id']} of transaction {row['id']}: begun under a brake."
        for row, event, moved in self.moved:
            if moved > self.stopped_us(row, int(event["at"])) + BRAKE_TOLERANCE_US:
                yield (
                    f"event {event['id']} of transaction {row['id']}: its deadline was put off by "
                    "more than brakes stopped it."
                )

    def stopped_us(self, row: Record, upto: int) -> int:
        """What the brakes over it cover of its time, each moment once."""
        total, reached = 0, int(row["created_at"])
        for begin, end in sorted(map(span_of, filter(lambda one: is_over(one, row), self.brakes))):
            begin, end = max(begin, reached), min(end, upto)
            total += max(end - begin, 0)
            reached = max(reached, end)
        return total


def is_over(brake: list[Record], row: Record) -> bool:
    put = says(brake[0])
    scope = (brake[0]["tenant"], put.get("agent", ""), put.get("tool", ""))
    of_row = (row["tenant"], row["proposed_by"], row["tool"])
    return all(part in ("", own) for part, own in zip(scope, of_row, strict=True))


def span_of(brake: list[Record]) -> tuple[int, int]:
    ends = [int(event["at"]) for event in brake if event["kind"] == "brake_lifted"]
    until = str(says(brake[0]).get("until", ""))
    ends += [int(until)] if until.isdecimal() else []
    return int(brake[0]["at"]), min(ends, default=2**63)


# --- grants and budgets -----------------------------------------------------------------------

DAYS_30, HOURS_8 = 30 * 24 * 3600 * 10**6, 8 * 3600 * 10**6
UNREADABLE = (
    *(LookupError, TypeError, ValueError, AttributeError),
    *(ArithmeticError, OSError, RecursionError),
)
ASKED = "break_glass_asked"
OF_GRANTS = {"grant_given", "grant_ended", ASKED}
OF_A_GRANTS_VOTE = {"grant", "charges", "break_glass", "signed_in_advance"}
# The members of the event by which a grant was given, where they are left out.
GRANT: Record = {"when": {}, "budgets": [], "warnings": [], "typed": False, "is_break_glass": False}
GRANT |= dict.fromkeys(("agent", "tool", "tool_version", "given_by", "confirmed_by"), "")
GRANT["names"] = None
PERIODS = {"day": "%Y-%m-%d", "month": "%Y-%m", "total": ""}


def part_of(budget: Record, row: Record) -> str:
    """The part that the transaction takes of it; empty where that is not known."""
    currency = budget["most"].partition(" ")[2]
    if not currency:
        return "1"
    is_known = row["amount"] is not None and row["currency"] == currency
    return plain(row["amount"]) if is_known else ""


def plain(number: str) -> str:
    return f"{Decimal(number).normalize():f}"


def charge(owner: str, budget: Record, row: Record, zone: str, at_us: int) -> Record:
    number, _, currency = budget["most"].partition(" ")
    per, at = budget.get("per", "day"), datetime.fromtimestamp(at_us // 10**6, ZoneInfo(zone))
    named = {"owner": owner, "measure": currency or "times", "per": per, "zone": zone}
    amounts = {"amount": part_of(budget, row), "most": plain(number)}
    return {**named, **amounts, "period": at.strftime(PERIODS[per])}


def are_taken(sealed: Any, limits: list[Limits], row: Record, at: int) -> bool:
    """Exactly the charges of these budgets, in the order of both, a minute before or after."""
    pairs = [(owner, budget) for owner, budgets in limits for budget in budgets]
    try:
        zone = sealed[0]["zone"] if sealed else "UTC"
        return any(
            sealed == [charge(*pair, row, zone, moment) for pair in pairs]
            for moment in (at - TOLERANCE_US, at, at + TOLERANCE_US)
        )
    except UNREADABLE:
        return False


class Grants:
    """Sealed grants and the votes by them, gathered while the export is read."""

    def __init__(self) -> None:
        self.chains: dict[str, list[Record]] = {}
        # The row, its votes by grants, and what each was on: empty where that is not known.
        self.signed: list[tuple[Record, list[tuple[Record, Record, bool]]]] = []

    def read(self, history: History) -> None:
        events = history.events
        if any(event["kind"] in OF_GRANTS for event in events):
            self.chains[history.subject] = events
        votes = [
            (event, events[:number])
            for number, event in enumerate(events)
            if event["via"] == "grant" or OF_A_GRANTS_VOTE & says(event).keys()
        ]
        if history.family == "transaction" and history.rows and votes:
            row, signed = history.rows[0], []
            for vote, before in votes:
                seen = as_of(row, history.revisions, events, len(revised_in(before)) + 1)
                signed.append((vote, seen or {}, bool(sealed_last(before, "evidence"))))
            self.signed.append((row, signed))

    def faults(self, rows: list[Record]) -> Iterator[str]:
        kept = {row["id"]: row for row in rows}
        grants: dict[int, Record] = {}
        every = [event for chain in self.chains.values() for event in chain]
        given = [event for event in every if event["kind"] == "grant_given"]
        for event in sorted(given, key=lambda event: int(event["id"])):
            number = str(says(event).get("subject", "")).removeprefix("grant:")
            own_chain = str(uuid5(ACCOUNTS, f"grant:{number}"))
            if not number.isdecimal() or event["subject"] != own_chain or int(number) in grants:
                yield f"event {event['id']} gives no grant of its chain."
                continue
            grants[int(number)] = self.given(event)
            found = grant_faults(grants[int(number)], kept.pop(int(number), {}))
            yield from (f"grant {number}: {fault}" for fault in read_of(found))
        yield from (f"grant {number} was never given." for number in kept)
        for row, votes in self.signed:
            used: set[Any] = set()
            for vote, seen, has_evidence in votes:
                named = says(vote).get("grant")
                grant = grants.get(named, {}) if type(named) is int else {}
                found = signature_faults(vote, grant, row, seen, has_evidence, used)
                name = f"event {vote['id']} of transaction {row['id']}"
                yield from (f"{name}: {fault}" for fault in read_of(found))
                used.add(grant.get("owner"))

    def given(self, event: Record) -> Record:
        """The grant as its events have it. An operator's question is answered once."""
        details, name = says(event), event["principal_name"]
        grant = GRANT | {name: details[name] for name in GRANT if name in details}
        names = {"given_by_name": name[:200], "confirmed_by_name": ""}
        asked: list[Record] = []
        if grant["is_break_glass"]:
            chain = self.chains.get(str(uuid5(ACCOUNTS, f"break_glass:{event['tenant']}")), [])
            own = [e for e in chain if (e["kind"], e["principal"]) == (ASKED, grant["given_by"])]
            own = [e for e in own if says(e).get("request") == details.get("request")]
            asked = [each for each in own if int(each["id"]) < int(event["id"])][-1:]
            first = asked[0]["principal_name"] if asked else ""
            names = {"given_by_name": first[:200], "confirmed_by_name": name[:200]}
            for each in asked:
                chain.remove(each)
        ends = [e for e in self.chains[event["subject"]] if e["kind"] == "grant_ended"]
        end: Record = ends[0] if ends else {"details": "{}", "id": 2**63}
        return grant | {
            **names,
            "tenant": event["tenant"],
            "why": event["reason"],
            "transaction_id": details.get("transaction"),
            "ends_at": details.get("ends_at"),
            "ended_at": says(end).get("at"),
            "ended_by": end.get("principal", ""),
            "ended_by_name": end.get("principal_name", "")[:200],
            "owner": str(details["subject"]),
            "event": event,
            "is_by_two": bool(asked),
            "last": int(end["id"]),
        }


def read_of(faults: Iterator[str]) -> Iterator[str]:
    try:
        yield from faults
    except UNREADABLE:
        yield "it cannot be read."


def faults_as_read(history: History, readers: Iterable[Any]) -> Iterator[str]:
    """The faults of a history, once all readers have read it; one is that they cannot."""
    try:
        yield from history.faults()
        for reader in readers:
            reader.read(history)
    except UNREADABLE:
        yield f"the events of {history.subject} cannot be read."


def grant_faults(grant: Record, row: Record) -> Iterator[str]:
    event = grant["event"]
    if not row or any(row[name] != grant.get(name, row[name]) for name in row):
        yield "it is not what its events sealed."
    elif abs(int(row["given_at"]) - int(event["at"])) >= TOLERANCE_US:
        yield "it was given at another time."
    longest = HOURS_8 if grant["is_break_glass"] else DAYS_30
    if int(grant["ends_at"]) - int(event["at"]) > longest + TOLERANCE_US:
        yield "it lasts too long."
    signers = [grant["given_by"], *filter(None, [grant["confirmed_by"]])]
    if grant["is_break_glass"]:
        is_signed = grant["is_by_two"] and len(set(signers)) == 2
    else:
        is_signed = len(signers) == 1 and grant["tool"] != ""
    if not is_signed or event["principal"] != signers[-1]:
        yield "it was not given by those who sign with it."
    if not all(signer.startswith("user:") for signer in signers):
        yield "not only people sign with it."


def signature_faults(
    vote: Record, grant: Record, row: Record, seen: Record, has_evidence: bool, used: set[Any]
) -> Iterator[str]:
    details = says(vote)
    if not grant or vote["via"] != "grant" or VERDICTS.get(vote["kind"]) != "approve":
        yield "no grant gave this signature."
        return
    is_open = int(grant["event"]["id"]) < int(vote["id"]) < grant["last"]
    if not is_open or int(vote["at"]) > int(grant["ends_at"]) + TOLERANCE_US:
        yield "its grant was not there then, or over."
    if vote["principal"] not in filter(None, (grant["given_by"], grant["confirmed_by"])):
        yield "who signed it had not signed the grant."
    if vote["reason_digest"] != grant["event"]["reason_digest"]:
        yield "its reason is not that of the grant."
    if details.get("typed", False) not in (False, grant["typed"]):
        yield "it was typed, and the grant was not."
    if details.get("break_glass", False) is not grant["is_break_glass"]:
        yield "it is break-glass, or not, other than its grant."
    if details.get("signed_in_advance") and "assertion" not in says(grant["event"]):
        yield "it says that it was signed in advance, and its grant was not."
    about = [(vote["tenant"], row["proposed_by"]), (grant["tenant"], grant["agent"])]
    if about[0] != about[1] or grant["tool"] not in ("", row["tool"]) or has_evidence:
        yield "its grant is about something else."
    if seen and row["content_erased_at"] is None and not is_covered(seen, grant):
        yield "its grant does not cover it."
    limits = [] if grant["owner"] in used else [(grant["owner"], grant["budgets"])]
    if seen and not are_taken(details.get("charges"), limits, seen, int(vote["at"])):
        yield "it did not take what its grant charges."


def is_covered(row: Record, grant: Record) -> bool:
    is_grave = row["risk_level"] == "CRITICAL" or row["consequence_level"] == "IRREVERSIBLE"
    has_limit = row["amount"] is None or grant["is_break_glass"] or "amount" in grant["when"]
    is_as_shown = {*map(digest, row["warnings"])} <= {*grant["warnings"]}
    names = {name for name, value in row["arguments"].items() if value not in (None, "", [], {})}
    is_as_named = grant["names"] is None or names <= {*grant["names"]}
    is_same_tool = not grant["tool"] or grant["tool_version"] == (row.get("tool_version") or "")
    return (
        not is_grave
        and has_limit
        and is_as_shown
        and is_as_named
        and is_same_tool
        and all(part_of(budget, row) for budget in grant["budgets"])
        and all(
            compared(fact, operator, wanted, row) is True
            for fact, comparisons in grant["when"].items()
            for operator, wanted in comparisons.items()
        )
    )


def changes_in(events: list[Record]) -> list[Change]:
    """What the events of one transaction made of budgets: event, budget, amount, limit."""
    changes: list[Change] = []
    taken: list[tuple[tuple[str, ...], Decimal]] = []
    late, was_released = "", False
    try:
        for event in events:
            sets = says(event).get("sets", {})
            late = sets.get("late_receipt", late)
            is_released = event["to_state"] in ("refused", "aborted", "failed") and not late
            if event is not events[0] and is_released != was_released:
                sign = -1 if is_released else 1
                changes += [(event["id"], budget, sign * part, None) for budget, part in taken]
            was_released = is_released
            terms = json.loads(sets.get("terms", "null")) if event is events[0] else None
            for each in [*(terms or {}).get("charges", []), *says(event).get("charges", [])]:
                budget = (event["tenant"], each["owner"], each["measure"], each["period"])
                taken.append((budget, Decimal(each["amount"])))
                changes.append((event["id"], *taken[-1], Decimal(each["most"])))
    except UNREADABLE:
        return []
    return changes


def charge_faults(rows: list[Record], events: list[Record]) -> Iterator[str]:
    """Each charge is in the table, and released where nothing came of it."""
    sealed: dict[Any, tuple[Decimal, bool]] = {}
    for _, budget, amount, _ in changes_in(events):
        sealed[budget] = abs(amount), budget not in sealed or not sealed[budget][1]
    kept = {
        tuple(row[name] for name in ("tenant", "owner", "measure", "period")): (
            Decimal(row["amount"]),
            row["released_at"] is None,
        )
        for row in rows
    }
    if kept != sealed or len(kept) != len(rows):
        yield f"transaction {events[0]['subject']}: its charges are not the sealed ones."


class Totals:
    """Changes of budgets, gathered while the export is read."""

    def __init__(self) -> None:
        self.changes: list[Change] = []

    def read(self, history: History) -> None:
        if history.family == "transaction":
            self.changes += changes_in(history.events)

    def faults(self, rows: list[Record]) -> Iterator[str]:
        used: dict[Any, Decimal] = {}
        for event, budget, amount, most in sorted(self.changes, key=lambda change: change[0]):
            used[budget] = used.get(budget, Decimal()) + amount
            if most is not None and used[budget] > most:
                yield f"event {event}: it charges {' '.join(budget)} beyond {most}."
        for row in rows:
            budget = tuple(row[name] for name in ("tenant", "owner", "measure", "period"))
            if Decimal(row["used"]) != used.pop(budget, 0):
                yield f"budget {row['id']}, {row['owner']}: used is not the sum of its charges."
        yield from (f"budget {' '.join(budget)} is missing." for budget in used)


class Replacements:
    """Transactions that were sent back, and those that replace them, as the export is read."""

    def __init__(self) -> None:
        self.sent_back: set[tuple[str, ...]] = set()
        self.replacing: list[tuple[str, ...]] = []

    def read(self, history: History) -> None:
        if history.family != "transaction" or not history.rows or not history.events:
            return
        row = history.rows[0]
        about = (row["tenant"], row["proposed_by"], row["tool"])
        if outcome_after(history.events)["ending"] == "sent_back":
            self.sent_back.add((row["id"], *about))
        if replaced := says(history.events[0]).get("replaces"):
            self.replacing.append((row["id"], str(replaced), *about))

    def faults(self) -> Iterator[str]:
        for name, *replaced in self.replacing:
            if tuple(replaced) not in self.sent_back:
                yield f"transaction {name}: what it replaces was not sent back to its agent."


# --- checkpoints ------------------------------------------------------------------------------


class Tree:
    """RFC 6962: the roots of the perfect subtrees at the right edge, from large to small."""

    def __init__(self) -> None:
        self.size = 0
        self.edge: list[tuple[int, bytes]] = []

    def append(self, leaf: bytes) -> None:
        self.size += 1
        count, node = 1, hashlib.sha256(b"\x00" + leaf).digest()
        while self.edge and self.edge[-1][0] == count:
            node = hashlib.sha256(b"\x01" + self.edge.pop()[1] + node).digest()
            count *= 2
        self.edge.append((count, node))

    def root(self) -> bytes:
        if not self.edge:
            return hashlib.sha256().digest()
        node = self.edge[-1][1]
        for _, left in reversed(self.edge[:-1]):
            node = hashlib.sha256(b"\x01" + left + node).digest()
        return node


def is_signed(text: str, lines: str, keys: list[bytes]) -> bool:
    """C2SP signed note: a line for each signature, `— <name> <base64 of key id and signature>`."""
    name = text.split("\n")[0]
    for line in lines.splitlines():
        dash, signer, material = (*line.split(" "), "", "")[:3]
        raw = base64.b64decode(material)
        for key in keys:
            key_id = hashlib.sha256(signer.encode() + b"\n\x01" + key).digest()[:4]
            if dash == "—" and signer == name and raw[:4] == key_id:
                try:
                    Ed25519PublicKey.from_public_bytes(key).verify(raw[4:], text.encode())
                    return True
                except InvalidSignature:
                    continue
    return False


def checkpoint_faults(
    points: list[Record], leaves: dict[int, str], keys: list[bytes]
) -> Iterator[str]:
    tree, ids = Tree(), iter(sorted(leaves))
    last, is_chained = 0, False
    for point in sorted(points, key=lambda point: int(point["size"])):
        name = f"checkpoint of {point['size']} events"
        text, _, signatures = point["note"].rpartition("\n\n")
        text += "\n"
        if not is_signed(text, signatures, keys):
            yield f"the {name} is not signed by a key that is trusted."
        previous, before = "".join(text.split("\n")[3:4]), f"previous {tree.size}"
        if previous not in ([before] if is_chained else ["", before]):
            yield f"the {name} does not follow that of {tree.size} events."
        is_chained = bool(previous)
        while tree.size < point["size"] and (event_id := next(ids, None)) is not None:
            last = event_id
            tree.append(bytes.fromhex(leaves[event_id]))
        signed = text.split("\n")[1:3]
        if signed != [str(tree.size), base64.b64encode(tree.root()).decode()]:
            yield f"the events under the {name} are not those that it signed."
        if (point["upto_event"], point["root"]) != (last, tree.root().hex()):
            yield f"the {name} was changed."


def tile_faults(points: list[Record], tiles: list[Record], leaves: dict[int, str]) -> Iterator[str]:
    """The stored tiles are exactly those of the last checkpoint."""
    size = max((int(point["size"]) for point in points), default=0)
    under = [bytes.fromhex(leaves[event_id]) for event_id in sorted(leaves)[:size]]
    right = tiles_of(under)
    stored = {(tile["level"], tile["index"]): bytes.fromhex(tile["hashes"]) for tile in tiles}
    for level, index in sorted(right.keys() | stored.keys()):
        if right.get((level, index)) != stored.get((level, index)):
            yield (
                f"tile {level}/{index} is not that of the {size} events under the last checkpoint: "
                "it was changed, or a newer checkpoint was deleted."
            )


def tiles_of(leaves: list[bytes]) -> dict[tuple[int, int], bytes]:
    """Up to 256 hashes each: of the leaves, then of full tiles, then of full tiles of those."""
    tiles: dict[tuple[int, int], bytes] = {}
    level = 0
    nodes = [hashlib.sha256(b"\x00" + leaf).digest() for leaf in leaves]
    while nodes:
        parts = [nodes[begin : begin + 256] for begin in range(0, len(nodes), 256)]
        tiles |= {(level, index): b"".join(part) for index, part in enumerate(parts)}
        nodes = [root_of(part) for part in parts if len(part) == 256]
        level += 1
    return tiles


def root_of(nodes: list[bytes]) -> bytes:
    while len(nodes) > 1:
        pairs = zip(nodes[::2], nodes[1::2], strict=True)
        nodes = [hashlib.sha256(b"\x01" + left + right).digest() for left, right in pairs]
    return nodes[0]


def cosignature_faults(
    points: list[Record], cosignatures: list[Record], witnesses: list[Key]
) -> Iterator[str]:
    """Each is a signature line; one by a witness whose key is trusted is that key's."""
    notes = {point["size"]: point["note"] for point in points}
    for record in cosignatures:
        name = f"cosignature of {record['witness']} for the checkpoint of {record['size']} events"
        note = notes.get(record["size"], "")
        dash, signer, material = (*record["line"].split(" "), "", "")[:3]
        try:
            raw = decoded(material)
        except ValueError:
            raw = b""
        owners = [key for key in witnesses if (key.name, key.key_id) == (signer, raw[:4])]
        if record["line"] != f"— {signer} {material}" or dash != "—" or len(raw) < 5 or not note:
            yield f"the {name} is no signature of a checkpoint that is here."
        elif not all(key.signed(f"{note}{record['line']}\n") for key in owners):
            yield f"the {name} is not the witness'."


def tail_faults(points: list[Record], times: dict[int, int], patience_s: float) -> Iterator[str]:
    """Events that should be under a checkpoint by now. Deleted checkpoints show here."""
    upto = max((int(point["upto_event"]) for point in points), default=0)
    oldest = (time.time() - patience_s) * 1e6
    old = sorted(event_id for event_id, at in times.items() if event_id > upto and at < oldest)
    if old and not points:
        yield f"no checkpoint is there: nothing is proved of event {old[0]} and those after it."
    elif old:
        yield f"{len(old)} events from event {old[0]} on are old, and under no checkpoint."


def outside_faults(points: list[Record], text: str) -> Iterator[str]:
    """Checkpoints that were published outside, notes one after the other, must still be here."""
    ours = {point["note"].rpartition("\n\n")[0] for point in points}
    for note in text.split("\n\n"):
        lines = [line for line in note.splitlines() if line and not line.startswith("— ")]
        if len(lines) >= 3 and "\n".join(lines) not in ours:
            yield f"the checkpoint of {lines[1]} events that was published outside is not here."


# --- one decision record ------------------------------------------------------------------------

OF_EVERY_RECORD = {
    "format",
    "version",
    "how_to_verify",
    "subject",
    "summary",
    "events",
    "checkpoint",
    "keys",
    "not_in_checkpoint",
    "next_checkpoint_within_s",
}
# The record that an agent gets has no notes of people, and no advice to them.
WITHHELD = frozenset({"noted", "advised"})
OF_EVERY_EVENT = {"id", "transaction_id", *EVENT, "reason", "hash", "leaf_index", "inclusion"}
SECTIONS = {"transaction": {"shown", "prepared", "result"}, "task": {"task", "questions"}}


def decoded(text: str) -> bytes:
    """Base64 as it must be written; the decoder alone passes over what follows."""
    raw = base64.b64decode(text, validate=True)
    if base64.b64encode(raw).decode() != text:
        raise ValueError(f"{text!r:.80} is no base64.")
    return raw


class Key:
    """A C2SP verifier key: `<name>+<key id>+<base64 of type and key>`."""

    def __init__(self, text: str) -> None:
        self.text = text.strip()
        self.name, _, rest = self.text.partition("+")
        key_id, _, material = rest.partition("+")
        raw = decoded(material)
        self.kind, self.public = raw[:1], raw[1:]
        self.key_id = hashlib.sha256(self.name.encode() + b"\n" + raw).digest()[:4]
        if len(raw) != 33 or self.kind not in (b"\x01", b"\x04") or self.key_id.hex() != key_id:
            raise SystemExit(f"{text!r} is no Ed25519 verifier key.")

    def signed(self, note: str) -> bool:
        """Of the log (type 1): the text. Of a witness (type 4): the text and when."""
        text, _, lines = note.rpartition("\n\n")
        text += "\n"
        if not lines.endswith("\n"):
            return False
        for line in lines[:-1].split("\n"):
            dash, name, material = line.split(" ")
            raw = decoded(material)
            if (dash, name, raw[:4]) != ("—", self.name, self.key_id):
                continue
            message, signature = text, raw[4:]
            if self.kind == b"\x04":
                at = int.from_bytes(raw[4:12], "big")
                message, signature = f"cosignature/v1\ntime {at}\n{text}", raw[12:]
            try:
                Ed25519PublicKey.from_public_bytes(self.public).verify(signature, message.encode())
                return True
            except InvalidSignature:
                return False
        return False


def record_faults(record: Record, keys: list[Key], witnesses: list[Key]) -> Iterator[str]:
    """Faults of a decision record, as sentences; nothing when it proves itself."""
    if (record.get("format"), record.get("version")) != ("assent-decision-record", 1):
        yield "this is no decision record of a version that is known here."
        return
    family, subject = record["subject"].get("type"), record["subject"].get("id")
    may_have = {"evidence", "revisions", "signing_events"} if family == "transaction" else set()
    if set(record) - may_have != OF_EVERY_RECORD | SECTIONS.get(family, set()):
        yield "the record has members that nothing proves, or lacks some."
        return
    events = record["events"]
    if not events or set(record["subject"]) != {"type", "id"}:
        yield "the record has no events."
        return
    for event in (*events, *record.get("signing_events", [])):
        if set(event) != OF_EVERY_EVENT or any(
            not isinstance(event[name], int if name in ("id", "seq") else str)
            for name in ("id", "reason", *EVENT)
        ):
            yield "an event has members that nothing proves, or lacks some."
            return
    yield from chain_faults(family, events, WITHHELD)
    for event in events:
        of_transaction = subject if family == "transaction" else ""
        if (event["subject"], event["transaction_id"]) != (subject, of_transaction):
            yield f"event {event['id']} is of something else."
    yield from note_faults(record, keys, witnesses)
    yield from place_faults(record)
    if record["summary"] != summary_of(events):
        yield "the summary is not what the events say."
    yield from (transaction_faults if family == "transaction" else task_faults)(record, events)


def note_faults(record: Record, keys: list[Key], witnesses: list[Key]) -> Iterator[str]:
    note, named = record["checkpoint"], record["keys"]
    if note is None:
        if named != {"log": None, "witnesses": []}:
            yield "the record names keys, but has no checkpoint."
        return
    log = [key for key in keys if key.text == named["log"] and note.startswith(f"{key.name}\n")]
    if set(named) != {"log", "witnesses"} or not log:
        yield "the checkpoint is of a key that is not trusted."
    elif not log[0].signed(note):
        yield "the checkpoint is not signed by the key of the log."
    for key in {key.text: key for key in (*map(Key, named["witnesses"]), *witnesses)}.values():
        if not key.signed(note):
            yield f"witness {key.name} did not cosign this checkpoint."


def place_faults(record: Record) -> Iterator[str]:
    """Faults of the place of each event in the tree of the checkpoint."""
    missing = [event["id"] for event in record["events"] if event["leaf_index"] is None]
    if record["not_in_checkpoint"] != missing:
        yield "the record does not say which events are under no checkpoint."
    if (
        missing
        != [event["id"] for event in record["events"]][len(record["events"]) - len(missing) :]
    ):
        yield "an event is under no checkpoint although a later one is."
    lines = (record["checkpoint"] or "\n0\n").split("\n")
    size, root = int(lines[1]), lines[2]
    every = [*record["events"], *record.get("signing_events", [])]
    places = [event["leaf_index"] for event in sorted(every, key=lambda event: event["id"])]
    proved = [place for place in places if place is not None]
    if proved != sorted(set(proved)) or None in places[: len(proved)]:
        yield "the places of the events are not in the order of their ids."
    for event in every:
        if event["leaf_index"] is None:
            if event["inclusion"] is not None:
                yield f"event {event['id']} has a proof, but no place."
            continue
        path = [decoded(node) for node in event["inclusion"]]
        leaf = hashlib.sha256(b"\x00" + bytes.fromhex(event["hash"])).digest()
        implied = implied_root(leaf, event["leaf_index"], size, path)
        if implied is None or base64.b64encode(implied).decode() != root:
            yield f"event {event['id']} is not proved to be in the log."


def implied_root(leaf: bytes, index: int, size: int, path: list[bytes]) -> bytes | None:
    """RFC 9162, section 2.1.3.2."""
    if not 0 <= index < size:
        return None
    here, last, node = index, size - 1, leaf
    for sibling in path:
        if last == 0:
            return None
        if here & 1 or here == last:
            node = hashlib.sha256(b"\x01" + sibling + node).digest()
            while here and not here & 1:
                here, last = here >> 1, last >> 1
        else:
            node = hashlib.sha256(b"\x01" + node + sibling).digest()
        here, last = here >> 1, last >> 1
    return None if last else node


def summary_of(events: list[Record]) -> Record:
    return {
        "state": events[-1]["to_state"],
        "prepared_at": rfc3339(events[0]["at"]),
        "decisions": [
            {
                **{name: event[name] for name in ("kind", "principal", "principal_name", "via")},
                "event": event["id"],
                "reason": event["reason"],
                "at": rfc3339(event["at"]),
                "intent_digest": says(event).get("intent_digest", ""),
                **({"policy": says(event)["policy"]} if "policy" in says(event) else {}),
            }
            for event in events
            if event["kind"] in VERDICTS and vote_of(event) not in withdrawn_in(events)
        ],
        "outcome": outcome_after(events),
    }


def rfc3339(microseconds: str) -> str:
    at = datetime.fromtimestamp(int(microseconds) // 10**6, UTC)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{int(microseconds) % 10**6:06d}Z"


def transaction_faults(record: Record, events: list[Record]) -> Iterator[str]:
    first, prepared = says(events[0]), record["prepared"]
    is_complete = list(prepared) in (list(FIXED), list(FIXED[:-1]))
    texts = {**prepared, "terms": outcome_after(events)["terms"]}
    if not is_complete or sealed_last(events, "row_digest") != row_digest(
        texts, former_digests(events), first
    ):
        yield "what was prepared is not what was sealed."
        return
    contents = [decoded(content or "") for content in record.get("evidence", [])]
    shown = json.loads(record["shown"] or "{}").get("evidence", [])
    yield from evidence_faults(shown, contents, events)
    former = record.get("revisions", [])
    if len(former) != len(revised_in(events)):
        yield "the record does not have the revisions that its events replaced."
    elif erasure_in(events) is None:
        yield from shown_faults(record, events, prepared)
    elif {record["shown"], *former} != {None}:
        yield "what was shown should be erased."
    texts = {"result": record["result"], "ending_reason": "", **prepared}
    yield from emptiness_faults(texts, events)
    yield from erasure_faults("transaction", events, prepared["retain_until"])
    if record["summary"]["outcome"].get("result") != sha256(record["result"].encode()):
        yield "the result is not the one that was sealed."
    if prepared["id"] != record["subject"]["id"]:
        yield "the record is of another transaction."
    yield from sign_off_faults(prepared, events)
    yield from signing_event_faults(record)
    yield from signatures_in(record).faults()


def signatures_in(record: Record) -> Signatures:
    signatures = Signatures()
    for event in record.get("signing_events", []):
        history = History(event["subject"])
        history.events = [event]
        signatures.read(history)
    history = History(record["subject"]["id"])
    history.events = record["events"]
    signatures.read(history)
    return signatures


def signing_event_faults(record: Record) -> Iterator[str]:
    """Each says which keys an account had that signed here, or gave a grant that did."""
    in_advance = [event for event in record["events"] if is_signed_in_advance(event)]
    signed = [event for event in record["events"] if "assertion" in says(event)]
    accounts = {str(uuid5(ACCOUNTS, event["principal"])) for event in (*signed, *in_advance)}
    grants = {chain_of_grant(event) for event in in_advance}
    last: dict[str, int] = {}
    for event in record.get("signing_events", []):
        name, kind = f"event {event['id']} of {event['subject']}", event["kind"]
        is_of_key = kind in KEY_EVENTS and event["subject"] in accounts
        is_of_key = is_of_key and (
            kind != "change_requested" or says(event).get("change") == ENROLLED
        )
        is_of_grant = kind == "grant_given" and event["subject"] in grants
        if event["transaction_id"] or not (is_of_key or is_of_grant):
            yield f"{name} is about something else."
        if event["seq"] <= last.get(event["subject"], 0):
            yield f"{name} is not in its order."
        last[event["subject"]] = event["seq"]
        if event["hash"] != sha256(netstrings(text_of(field, event[field]) for field in EVENT)):
            yield f"{name} was changed."
        if digest(event["reason"]) != event["reason_digest"]:
            yield f"{name}: the reason was changed."
    for event in in_advance:
        grant = grant_of(event, record)
        if not grant:
            yield f"event {event['id']}: no grant that was signed is here for it."
        elif not is_by_this_grant(event, grant, record):
            yield f"event {event['id']}: its grant does not cover it, or was over."


def chain_of_grant(vote: Record) -> str:
    return str(uuid5(ACCOUNTS, f"grant:{says(vote).get('grant')}"))


def grant_of(vote: Record, record: Record) -> Record:
    """The event by which who voted had given, and signed, the grant that signs this vote; empty
    where the record does not have it."""
    who = vote["principal"]
    wanted = (chain_of_grant(vote), 1, vote["tenant"], who, who)
    for event in record.get("signing_events", []):
        parts = [event[name] for name in ("subject", "seq", "tenant", "principal")]
        if (*parts, says(event).get("given_by")) == wanted and event["id"] < vote["id"]:
            return event if "assertion" in says(event) else {}
    return {}


def is_by_this_grant(vote: Record, grant: Record, record: Record) -> bool:
    """The grant is about the live revision that is shown, and its time was not over."""
    details, prepared = says(grant), record["prepared"]
    about = (details.get("agent"), details.get("tool"))
    if about != (prepared["proposed_by"], prepared["tool"]):
        return False
    if int(vote["at"]) > int(details["ends_at"]) + TOLERANCE_US:
        return False
    shown = json.loads(record["shown"] or "null")
    if shown is None or any(each["seq"] > vote["seq"] for each in revised_in(record["events"])):
        return True
    impact = shown["financial_impact"] or {"amount": None, "currency": ""}
    return "evidence" not in shown and is_covered({**shown, **impact}, GRANT | details)


def shown_faults(record: Record, events: list[Record], prepared: Record) -> Iterator[str]:
    if sealed_last(events, "intent_digest") != sha256(record["shown"].encode()):
        yield "what was shown is not what was signed off."
    texts = [*record.get("revisions", []), record["shown"]]
    intents_of = [json.loads(text) for text in texts]
    for event, text, pair in zip(revised_in(events), texts, pairwise(intents_of), strict=False):
        if says(event).get("replaces") != sha256(text.encode()):
            yield f"what event {event['id']} replaced is not what was shown then."
        if not {*changes(*pair)} <= {*says(event).get("changed", [])}:
            yield f"event {event['id']} changed more than it says."
    shown = intents_of[-1]
    if shown.get("transaction_id") != prepared["id"]:
        yield "what was shown is another transaction."
    if not is_same_amount(shown.get("financial_impact"), prepared):
        yield "what was shown and what was prepared differ: amount."
    for column in SHOWN:
        if text_of(column, shown.get(column)) != prepared[column]:
            yield f"what was shown and what was prepared differ: {column}."


def is_same_amount(shown: Any, prepared: Record) -> bool:
    if not prepared["amount"]:
        return shown is None
    same: bool = Decimal(shown["amount"]) == Decimal(prepared["amount"])
    return same and bool(shown["currency"] == prepared["currency"])


def task_faults(record: Record, events: list[Record]) -> Iterator[str]:
    task, all_details = record["task"], [says(event) for event in events]
    skills = [details["skill"] for details in all_details if "skill" in details]
    sealed = {"tenant": events[0]["tenant"], "skill": skills[-1] if skills else ""}
    if {name: task.get(name) for name in sealed} != sealed or len(task) != 4:
        yield "the task is not the one that was submitted."
    yield from task_erasure_faults(events)
    is_erased, content = erasure_in(events) is not None, sealed_of_task(events)
    if is_erased:
        content = dict.fromkeys(content, digest("null"))
    if content["input"] != digest(task["input"]):
        yield "the input is not the one that was submitted."
    if content["result"] != digest(task["result"]):
        yield "the result is not the one that was sealed."
    asked_digests = {d["question"]: d["asked_digest"] for d in all_details if "asked_digest" in d}
    answered = {d["question"]: d["answer_digest"] for d in all_details if "answer_digest" in d}
    if [question["id"] for question in record["questions"]] != list(asked_digests):
        yield "the questions are not those that were asked."
    for question in record["questions"]:
        if set(question) != {"id", "asked", "answer"}:
            yield f"question {question['id']} has members that nothing proves."
        if is_erased:
            if (question["asked"], question["answer"]) != (None, None):
                yield f"question {question['id']} should be erased."
            continue
        if asked_digests.get(question["id"]) != sha256(question["asked"].encode()):
            yield f"question {question['id']} is not as it was asked."
        if answered.get(question["id"], sha256(b"null")) != sha256(question["answer"].encode()):
            yield f"question {question['id']} was not answered so."


def verify_record(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="verify.py record",
        description="Proves one decision record, offline. Exit status 2: its newest events are "
        "under no checkpoint yet, so that nothing outside confirms them.",
    )
    parser.add_argument("file")
    parser.add_argument("--key", action="append", required=True, help="verifier key of the log")
    parser.add_argument("--witness", action="append", default=[], help="must have cosigned")
    options = parser.parse_args(arguments)
    with open(options.file, encoding="utf-8") as file:
        text = file.read()
    witnesses = [*map(Key, options.witness)]
    try:
        record = json.loads(text, object_pairs_hook=without_repeats)
        faults = list(record_faults(record, [*map(Key, options.key)], witnesses))
    except (
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        ArithmeticError,
        RecursionError,
        SystemExit,
    ) as failure:
        record, faults = {}, [f"it cannot be read: {failure!r}"]
    for fault in faults:
        print(printable(fault))
    if faults:
        print(f"{len(faults)} faults: this record proves nothing.")
        return 1
    for line in in_words(record, witnesses):
        print(printable(line))
    return 2 if record["not_in_checkpoint"] else 0


def without_repeats(pairs: list[tuple[str, Any]]) -> Record:
    """A member that is there twice is read in two ways by two readers."""
    names = [name for name, _ in pairs]
    if len(set(names)) != len(names):
        raise ValueError("a member is there twice")
    return dict(pairs)


def printable(line: str) -> str:
    """Nothing of a record moves the cursor, or passes for a line of ours."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in line)


def in_words(record: Record, witnesses: list[Key]) -> Iterator[str]:
    """The proven part; then what only stands there, and anybody could have written."""
    events, late = record["events"], record["not_in_checkpoint"]
    proved = events[: len(events) - len(late)]
    name = f"{record['subject']['type']} {record['subject']['id']}"
    if proved:
        at = rfc3339(proved[-1]["at"])
        yield f"{name} is {proved[-1]['to_state']}, as its events prove: how it stood at {at}."
        yield from votes_in_words(proved, record)
        if erasure := erasure_in(proved):
            yield f"  its content was erased on {rfc3339(erasure['at'])}, after its retention"
        origin, size = record["checkpoint"].split("\n")[:2]
        by = ", ".join(key.name for key in witnesses) or "nobody whom you named"
        yield f"  in the log {origin} of {size} events, cosigned by {by}"
    if late:
        yield f"{len(late)} of its events are under no checkpoint yet, and not proved:"
        yield from votes_in_words(events[len(proved) :], record)
        yield f"  it says that {name} is {events[-1]['to_state']}. Take the record again."


def votes_in_words(events: list[Record], record: Record) -> Iterator[str]:
    signatures, of_id = signatures_in(record), {event["id"]: event for event in events}
    for event in revised_in(events):
        who = f"{event['principal_name']!r} ({event['principal']})"
        yield f"  {rfc3339(event['at'])} changed by {who}: {says(event).get('changed')}"
    for vote in summary_of(events)["decisions"]:
        reason = f": {vote['reason']!r}" if vote["reason"] else ""
        who = f"{vote['principal_name']!r} ({vote['principal']})"
        yield f"  {vote['at']} {vote['kind']} by {who} through {vote['via']}{reason}"
        event = of_id[vote["event"]]
        signed = grant_of(event, record) if is_signed_in_advance(event) else event
        if "assertion" in says(signed):
            by = key_then(signed, signatures.keys_before(event["principal"], signed))["by"]
            names = " and ".join(f"{e['principal_name']!r} ({e['principal']})" for e in by)
            own = ", with a key of theirs" if "assertion" in says(by[0]) else ""
            how = "signed" if signed is event else f"signed in advance on {rfc3339(signed['at'])}"
            when = rfc3339(by[0]["at"])
            yield f"    {how} with a passkey, enrolled {when} by {names}{own}"
        if policy := vote.get("policy"):
            cited = ", ".join(map(repr, policy["paragraphs"]))
            yield f"    by {policy['name']!r} {policy['version']!r} ({policy['sha256']}): {cited}"
    if receipt := summary_of(events)["outcome"]["receipt"]:
        yield f"  receipt {receipt!r}"


# --- all of it --------------------------------------------------------------------------------


def verify(
    lines: Iterable[str],
    keys: list[bytes],
    patience_s: float = 300.0,
    outside: str = "",
    witnesses: Sequence[Key] = (),
) -> Iterator[str]:
    """Every fault of an export, as a sentence."""
    apart = (
        "account",
        "budget",
        "grant",
        "checkpoint",
        "tile",
        "cosignature",
        "tool_version",
        "policy_document",
    )
    log: dict[str, list[Record]] = {kind: [] for kind in apart}
    cited: set[tuple[str, ...]] = set()
    leaves: dict[int, str] = {}
    times: dict[int, int] = {}
    counts: Counter[str] = Counter()
    end: Record = {}
    history, rights, rule_sets, stops = History(""), Rights(), RuleSets(), Stops()
    grants, totals, replacements = Grants(), Totals(), Replacements()
    signatures = Signatures()
    readers = (rights, rule_sets, stops, grants, totals, replacements, signatures)
    for record in map(json.loads, lines):
        kind = record["type"]
        counts[kind] += 1
        if kind in log:
            log[kind].append(record)
        elif kind == "end":
            end = record["counts"]
        elif kind != "ledger":
            subject = record.get("subject") or record.get("transaction_id") or record["id"]
            if subject != history.subject:
                yield from faults_as_read(history, readers)
                history = History(subject)
            if kind == "contents":
                history.contents = record["digests"]
            elif kind == "event":
                leaves[record["id"]], times[record["id"]] = record["hash"], int(record["at"])
                history.events.append(record)
                if isinstance(policy := says(record).get("policy"), dict):
                    named = (str(policy.get(name)) for name in ("name", "version", "sha256"))
                    cited.add((record["tenant"], *named))
            else:
                lists = {
                    "decision": history.decisions,
                    "permit": history.permits,
                    "evidence": history.evidence,
                    "charge": history.charges,
                    "revision": history.revisions,
                }
                lists.get(kind, history.rows).append(record)
    yield from faults_as_read(history, readers)
    yield from stops.faults()
    yield from grants.faults(log["grant"])
    yield from totals.faults(log["budget"])
    yield from rights.faults(log["account"])
    yield from rule_sets.faults()
    yield from replacements.faults()
    yield from signatures.faults()
    if not end or any(counts[name] != count for name, count in end.items()):
        yield "the export is not complete."
    yield from document_faults(log["tool_version"], log["policy_document"], cited)
    points = log["checkpoint"]
    yield from checkpoint_faults(points, leaves, keys)
    yield from tile_faults(points, log["tile"], leaves)
    yield from cosignature_faults(points, log["cosignature"], [*witnesses])
    yield from tail_faults(points, times, patience_s)
    yield from outside_faults(points, outside)


# --- an archive for auditors --------------------------------------------------------------------

OF_EVERY_ARCHIVE = {
    "README.txt",
    "changes.jsonl",
    "decisions.csv",
    "holders.csv",
    "log.json",
    "mapping.csv",
    "mapping.md",
    "records.jsonl",
    "rules.jsonl",
    "sample.csv",
    "verify.py",
}
DECIDED = {
    "approval_recorded",
    "approved",
    "approval_withdrawn",
    "passed_on",
    "rejected",
    "sent_back",
    "refused",
    "expired",
    "task_answered",
}
OF_RULES = {"rules_activated", "rules_asked", "rules_declined"}
OF_GROUPS = {
    "group_made",
    "group_member_added",
    "group_member_removed",
    "group_change_asked",
    "group_change_declined",
}
OF_ROLES = {"role_granted", "role_revoked"}
OF_BRAKES = {"brake_put", "brake_lifted"}
DECISION_COLUMNS = (
    *("type", "id", "tool", "risk", "amount", "currency", "proposed_by"),
    *("state", "decided_by", "decided_at", "link"),
)
SAMPLE_COLUMNS = (*DECISION_COLUMNS, "looked_at_by", "looked_at_on", "result", "remarks")
HOLDING_COLUMNS = (
    *("what", "name", "principal", "person", "since", "until"),
    *("given_by", "asked_by", "given_in_event", "ended_by", "ended_in_event"),
)
HOLDS = {
    "user_created": ("account", True),
    "user_activated": ("account", True),
    "user_deactivated": ("account", False),
    "staff_granted": ("staff", True),
    "staff_revoked": ("staff", False),
    "superuser_granted": ("superuser", True),
    "superuser_revoked": ("superuser", False),
    "role_granted": ("role", True),
    "role_revoked": ("role", False),
    "group_member_added": ("group", True),
    "group_member_removed": ("group", False),
}


MOST_OF_ONE = 1 << 24  # bytes of the manifest, the seal and the checkpoints
OF_END = (
    22,
    98,
)  # bytes of the end of a zip file, without a comment: of an old one, of a large one
MOST_OF_END = max(OF_END)


class EvidenceArchive:
    """One archive: its manifest, and what the files say that it lists."""

    def __init__(self, file: zipfile.ZipFile, keys: list[Key], witnesses: list[Key]) -> None:
        self.file, self.keys, self.witnesses = file, keys, witnesses
        self.manifest: Record = self.json("manifest.json")
        self.tenant = self.manifest["tenant"]
        self.begin, self.end = self.manifest["from"], self.manifest["to"]
        self.decided: set[str] = set()
        self.chosen: list[tuple[str, list[str]]] = []
        self.last_place = -1  # in the log, of the decisions of the period

    def json(self, name: str) -> Record:
        if self.file.getinfo(name).file_size > MOST_OF_ONE:
            raise ValueError(f"{name} is larger than it can be")
        value = json.loads(self.file.read(name), object_pairs_hook=without_repeats)
        return dict(value)

    def lines(self, name: str) -> Iterator[Record]:
        with self.file.open(name) as raw:
            for line in io.TextIOWrapper(raw, encoding="utf-8", newline="\n"):
                yield dict(json.loads(line, object_pairs_hook=without_repeats))

    def table(self, name: str) -> Iterator[list[str]]:
        with self.file.open(name) as raw:
            yield from csv.reader(io.TextIOWrapper(raw, encoding="utf-8", newline=""), strict=True)

    def is_within(self, event: Record) -> bool:
        return bool(self.begin <= rfc3339(event["at"]) < self.end)

    # --- the files and their seal ---

    def file_faults(self) -> Iterator[str]:
        if (self.manifest.get("format"), self.manifest.get("version")) != ("assent-evidence", 1):
            yield "this is no archive of a version that is known here."
            return
        listed = {each["name"]: each for each in self.manifest["files"]}
        stored = [entry.filename for entry in self.file.infolist()]
        expected = OF_EVERY_ARCHIVE | ({"ledger.jsonl"} & set(listed))
        if set(listed) != expected or len(listed) != len(self.manifest["files"]):
            yield "the manifest lists other files than an archive has."
        if sorted(stored) != sorted({*expected, "manifest.json", "seal.json"}):
            odd = sorted(set(stored) ^ {*expected, "manifest.json", "seal.json"})
            yield f"files are missing, were added, or are there twice: {', '.join(odd) or stored}."
            return
        if not self.is_plain():
            yield "there is more in it than its files, which other programs might show."
        for name in sorted(expected & set(listed)):
            digest, size = hashlib.sha256(), 0
            if self.file.getinfo(name).file_size != listed[name]["bytes"]:
                yield f"{name} is not as it was sealed."
                continue
            with self.file.open(name) as raw:
                while part := raw.read(1 << 20):
                    digest.update(part)
                    size += len(part)
            if (digest.hexdigest(), size) != (listed[name]["sha256"], listed[name]["bytes"]):
                yield f"{name} is not as it was sealed."

    def is_plain(self) -> bool:
        """Ordinary files, one after the other from the first byte to the last: what is beside them
        is read by programs that begin elsewhere."""
        raw, place, of_list = self.file.fp, 0, 0
        assert raw is not None
        for entry in self.file.infolist():
            raw.seek(entry.header_offset)
            head = raw.read(30)
            of_names = int.from_bytes(head[26:28], "little") + int.from_bytes(head[28:30], "little")
            is_file = entry.external_attr >> 28 in (0, 8)
            if entry.header_offset != place or entry.comment or not is_file:
                return False
            place += 30 + of_names + entry.compress_size
            of_list += 46 + len(entry.orig_filename.encode()) + len(entry.extra)
        raw.seek(place + of_list)
        end = raw.read(MOST_OF_END + 1)
        return self.file.start_dir == place and end[-22:-18] == b"PK\5\6" and len(end) in OF_END

    def seal_faults(self) -> Iterator[str]:
        seal = self.json("seal.json")
        if set(seal) != {"event", "checkpoint", "keys"}:
            yield "the seal has members that nothing proves, or lacks some."
            return
        event = seal["event"]
        yield from self.event_faults([event], seal)
        details = says(event)
        wanted = {
            "subject": f"evidence:{self.tenant}",
            "manifest": sha256(self.file.read("manifest.json")),
            "from": self.begin,
            "to": self.end,
        }
        if (event["kind"], event["tenant"]) != ("evidence_made", self.tenant) or any(
            details.get(name) != value for name, value in wanted.items()
        ):
            yield "the manifest is not the one that was sealed."

    def event_faults(self, events: list[Record], log: Record) -> Iterator[str]:
        """Each is as it was sealed, and in the signed log."""
        for event in events:
            name = f"event {event.get('id')}"
            if set(event) != OF_EVERY_EVENT:
                yield f"{name} has members that nothing proves, or lacks some."
                return
            if event["hash"] != sha256(netstrings(text_of(field, event[field]) for field in EVENT)):
                yield f"{name} was changed."
            if event["reason_digest"] != digest(event["reason"]):
                yield f"{name}: the reason was changed."
            if event["subject"] != str(uuid5(ACCOUNTS, str(says(event).get("subject")))):
                yield f"{name} is of something else."
        yield from note_faults(log, self.keys, self.witnesses)
        yield from place_faults({**log, "events": events, "not_in_checkpoint": []})

    # --- decisions ---

    def record_faults(self) -> Iterator[str]:
        rows = self.table("decisions.csv")
        if next(rows, None) != [*DECISION_COLUMNS]:
            yield "decisions.csv has other columns."
        before = ("", "")
        for record in self.lines("records.jsonl"):
            name = f"{record['subject']['type']} {record['subject']['id']}"
            for fault in record_faults(record, self.keys, self.witnesses):
                yield f"{name}: {fault}"
            row, decided = self.row_of(record), list(self.decisions_in(record))
            place = ({"transaction": "0", "task": "1"}[row[0]], row[1])
            if place <= before:
                yield f"{name} is there twice, or not in its order."
            before = place
            if any(event["tenant"] != self.tenant for event in record["events"]):
                yield f"{name} is of another tenant."
            if not decided:
                yield f"{name}: nothing was decided upon it in the period."
            if None in [event["leaf_index"] for event in decided]:
                yield f"{name}: a decision of the period is under no checkpoint."
            of_record = [event["leaf_index"] for event in decided if event["inclusion"] is not None]
            self.last_place = max([self.last_place, *of_record])
            self.decided.add(row[1])
            if next(rows, None) != row:
                yield f"decisions.csv does not say what the record of {name} does."
            self.offer(row)
        if next(rows, None) is not None or len(self.decided) != self.manifest["decisions"]:
            yield "there are more or fewer decisions than the archive says."

    def decisions_in(self, record: Record) -> Iterator[Record]:
        return (e for e in record["events"] if e["kind"] in DECIDED and self.is_within(e))

    def row_of(self, record: Record) -> list[str]:
        kind, subject = record["subject"]["type"], record["subject"]["id"]
        prepared = record.get("prepared", {})
        votes = record["summary"]["decisions"]
        if kind == "task":
            answers = [event for event in record["events"] if event["kind"] in DECIDED]
            votes = [{**event, "at": rfc3339(event["at"])} for event in answers]
        return [
            spreadsheet(cell)
            for cell in (
                kind,
                subject,
                prepared["tool"] if kind == "transaction" else record["task"]["skill"],
                prepared.get("risk_level", ""),
                prepared.get("amount", ""),
                prepared.get("currency", ""),
                prepared.get("proposed_by", ""),
                record["summary"]["state"],
                " ".join(f"{vote['kind']}:{vote['principal']}" for vote in votes),
                votes[-1]["at"] if votes else "",
                f"{self.manifest['desk']}/{kind}s/{subject}/",
            )
        ]

    def offer(self, row: list[str]) -> None:
        chance = self.manifest["sample"]["chance"]
        self.chosen.append((sha256(f"{chance}{row[1]}".encode()), row))
        if len(self.chosen) > 2 * self.manifest["sample"]["size"] + 100:
            self.chosen = self.first_of_chance()

    def first_of_chance(self) -> list[tuple[str, list[str]]]:
        return sorted(self.chosen)[: self.manifest["sample"]["size"]]

    def sample_faults(self) -> Iterator[str]:
        """The chance is the root of the first checkpoint over all decisions of the period."""
        note, chance = self.json("log.json")["head"], self.manifest["sample"]["chance"]
        if note is None or not self.decided:
            if note is not None or self.decided or chance:
                yield "the chance for the sample comes from nowhere."
        else:
            _origin, size, root, previous = note.split("\n")[:4]
            is_first = int(previous.removeprefix("previous ") or 0) <= self.last_place < int(size)
            is_signed = any(
                note.startswith(f"{key.name}\n") and key.signed(note) for key in self.keys
            )
            if not is_signed or not is_first or decoded(root).hex() != chance:
                yield "the chance for the sample is not that of the log."
        rows = [[*row, "", "", "", ""] for _, row in self.first_of_chance()]
        if list(self.table("sample.csv")) != [[*SAMPLE_COLUMNS], *rows]:
            yield "sample.csv is not what chance has chosen."

    # --- rules and rights ---

    def change_faults(self) -> Iterator[str]:
        events = list(self.lines("changes.jsonl"))
        log = self.json("log.json")
        yield from self.event_faults(events, {name: log[name] for name in ("checkpoint", "keys")})
        chains: dict[str, list[Record]] = {}
        for event in events:
            if rfc3339(event["at"]) >= self.end:
                yield f"event {event['id']} is after the period."
            is_general = event["kind"] in OF_BRAKES | set(FLAGS)
            if event["tenant"] != self.tenant and not is_general:
                yield f"event {event['id']} is of another tenant."
            if event["kind"] not in OF_RULES | OF_GROUPS | OF_ROLES | OF_BRAKES | set(FLAGS):
                yield f"event {event['id']} is no change of rules or rights."
            chains.setdefault(event["subject"], []).append(event)
        for chain in chains.values():
            if chain[0]["kind"] in OF_RULES | OF_GROUPS:
                yield from chain_faults("account", chain)
        if list(self.lines("rules.jsonl")) != self.rules_in_force(events):
            yield "rules.jsonl is not what the events say."
        held = [[*HOLDING_COLUMNS], *self.holdings(events)]
        if list(self.table("holders.csv")) != held:
            yield "holders.csv is not what the events say."

    def counts(self, since: str, until: str) -> bool:
        return bool(since < self.end and not (until and until <= self.begin))

    def rules_in_force(self, events: list[Record]) -> list[Record]:
        activated = [event for event in events if event["kind"] == ACTIVATED]
        times = [rfc3339(event["at"]) for event in activated]
        return [
            {
                "number": says(event)["number"],
                "since": since,
                "until": until,
                "asked_by": says(event).get("asked_by", ""),
                "asked_by_name": says(event).get("asked_by_name", ""),
                "confirmed_by": event["principal"],
                "confirmed_by_name": event["principal_name"],
                "loosens": says(event).get("loosens", []),
                "rules": says(event)["rules"],
                "event": event["id"],
            }
            for event, since, until in zip(activated, times, [*times[1:], ""], strict=False)
            if self.counts(since, until)
        ]

    def holdings(self, events: list[Record]) -> list[list[str]]:
        rows: list[Record] = []
        for event in events:
            if event["kind"] not in HOLDS:
                continue
            (what, is_begun), details = HOLDS[event["kind"]], says(event)
            named = {"role": details.get("role", ""), "group": details["name"]}.get(what, "")
            who = details["person"] if what == "group" else details["subject"]
            key = {"what": what, "name": named, "principal": who}
            open_ = [row for row in rows if key.items() <= row.items() and not row["ended_by"]]
            if not is_begun and open_:
                at = rfc3339(event["at"])
                open_[-1]["until"] = min(at, open_[-1]["until"] or at)
                open_[-1]["ended_by"] = event["principal"]
                open_[-1]["ended_in_event"] = str(event["id"])
            elif is_begun and (not open_ or what == "group"):
                since = max(int(details.get("starts_at") or 0), int(event["at"]))
                ends_at = details.get("ends_at")
                rows.append(
                    {
                        **key,
                        "person": details["person_name" if what == "group" else "name"],
                        "since": rfc3339(str(since)),
                        "until": rfc3339(ends_at) if ends_at else "",
                        "given_by": event["principal"],
                        "asked_by": details.get("asked_by", ""),
                        "given_in_event": str(event["id"]),
                        "ended_by": "",
                        "ended_in_event": "",
                    }
                )
        return [
            [spreadsheet(row[column]) for column in HOLDING_COLUMNS]
            for row in rows
            if self.counts(row["since"], row["until"])
        ]

    # --- the whole ledger ---

    def ledger_faults(self) -> Iterator[str]:
        """With the whole ledger: it verifies, and the archive leaves out no decision of it."""
        if "ledger.jsonl" not in self.file.namelist():
            return
        keys = [key.public for key in self.keys]
        with self.file.open("ledger.jsonl") as raw:
            lines = io.TextIOWrapper(raw, encoding="utf-8", newline="\n")
            for fault in verify(lines, keys, witnesses=self.witnesses, patience_s=float("inf")):
                yield f"ledger.jsonl: {fault}"
        of_archive = {event["id"] for event in self.lines("changes.jsonl")}
        people: set[str] = set()
        changes, decided = [], set()
        for event in self.lines("ledger.jsonl"):
            if event["type"] != "event" or rfc3339(event["at"]) >= self.end:
                continue
            is_ours, kind = event["tenant"] == self.tenant, event["kind"]
            if kind in DECIDED and is_ours and self.is_within(event):
                decided.add(event["subject"])
            if (kind in OF_ROLES and is_ours) or kind == "superuser_granted":
                people.add(event["subject"])
            is_brake = kind in OF_BRAKES and event["tenant"] in ("", self.tenant)
            if is_brake or (kind in OF_RULES | OF_GROUPS | OF_ROLES and is_ours) or kind in FLAGS:
                changes.append(event)
        expected = {e["id"] for e in changes if e["kind"] not in FLAGS or e["subject"] in people}
        if decided != self.decided or expected != of_archive:
            yield "the archive leaves out decisions or changes that the ledger has."


UNREADABLE_ARCHIVE = (
    *(ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError),
    *(
        OSError,
        EOFError,
        NotImplementedError,
        RuntimeError,
        zlib.error,
        zipfile.BadZipFile,
        SystemExit,
    ),
)
NOT_PROVED = "That no decision was left out is not proved: only an archive with the ledger does."


def spreadsheet(value: Any) -> str:
    """Text that no spreadsheet takes for a formula."""
    text = str(value)
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


def evidence_faults_of(archive: EvidenceArchive, wanted: Record) -> Iterator[str]:
    """Faults of an archive; of one whose files are not the sealed ones, nothing else is read."""
    of_files = [*archive.file_faults(), *archive.seal_faults()]
    yield from of_files
    for name, value in wanted.items():
        is_same = archive.tenant == value if name == "tenant" else True
        if value and not (is_same and archive.manifest[name].startswith(value)):
            yield f"its {name} is {archive.manifest[name]!r}, and not {value!r}."
    if not of_files:
        yield from archive.record_faults()
        yield from archive.sample_faults()
        yield from archive.change_faults()
        yield from archive.ledger_faults()


def verify_evidence(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="verify.py evidence", description="Proves an archive for auditors, offline."
    )
    parser.add_argument("file")
    parser.add_argument("--key", action="append", required=True, help="verifier key of the log")
    parser.add_argument("--witness", action="append", default=[], help="must have cosigned")
    parser.add_argument("--tenant", default="", help="it must be of this tenant")
    parser.add_argument("--from", default="", help="how the instant reads at which it must begin")
    parser.add_argument("--to", default="", help="and the one before which it must end, in UTC")
    options = vars(parser.parse_args(arguments))
    keys, witnesses = [*map(Key, options["key"])], [*map(Key, options["witness"])]
    faults = []
    try:
        with zipfile.ZipFile(options["file"]) as file:
            archive = EvidenceArchive(file, keys, witnesses)
            wanted = {name: options[name] for name in ("tenant", "from", "to")}
            for fault in evidence_faults_of(archive, wanted):
                faults.append(fault)
                print(printable(fault))
    except UNREADABLE_ARCHIVE as failure:
        faults.append(repr(failure))
        print(printable(f"it cannot be read: {failure!r}"))
    if faults:
        print(f"{len(faults)} faults: this archive proves nothing.")
        return 1
    print(
        printable(
            f"{archive.manifest['decisions']} decisions of {archive.tenant}, from {archive.begin} "
            f"until before {archive.end}: all is as it was sealed."
        )
    )
    is_whole = any(each["name"] == "ledger.jsonl" for each in archive.manifest["files"])
    print("None of the ledger is missing." if is_whole else NOT_PROVED)
    return 0


def main() -> int:
    if sys.argv[1:2] == ["evidence"]:
        return verify_evidence(sys.argv[2:])
    if sys.argv[1:2] == ["record"]:
        return verify_record(sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("export")
    parser.add_argument("--public-key", action="append", required=True, help="hexadecimal")
    parser.add_argument("--patience", type=float, default=300.0, help="seconds")
    parser.add_argument("--against", help="a file of checkpoints that were published outside")
    parser.add_argument("--witness", action="append", default=[], help="verifier key of a witness")
    options = parser.parse_args()
    outside = ""
    if options.against:
        with open(options.against, encoding="utf-8") as file:
            outside = file.read()
    keys = [bytes.fromhex(key) for key in options.public_key]
    count = 0
    witnesses = [*map(Key, options.witness)]
    with open(options.export, encoding="utf-8") as file:
        for fault in verify(file, keys, options.patience, outside, witnesses):
            count += 1
            print(fault)
    if count:
        print(f"{count} faults.")
    else:
        print("The ledger is whole." if outside else WHOLE_SO_FAR)
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
