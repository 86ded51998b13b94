"""A second verifier: proves an exported ledger, and shares no line with the first one.

    python manage.py export_ledger ledger.jsonl
    python examples/verify.py ledger.jsonl --public-key HEX

Written from docs/audit.md alone, with the standard library and `cryptography`. Every fault is a
line that names its row; the exit status is 1 if there is one.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

Record = dict[str, Any]

# --- the maps (docs/audit.md, "Moves") ------------------------------------------------------

BEGUN = {
    "committing", "committed", "in_doubt", "rolling_back", "aborted", "failed", "compensating",
    "compensated",
}  # fmt: skip
OPEN_TASK = {"submitted", "working", "input-required", "auth-required"}
# kind: (states that it leads out of, state that it leads to; None: the state stays)
MOVES: dict[str, dict[str, tuple[set[str], str | None]]] = {
    "transaction": {
        "prepared": (set(), "prepared"),
        "refused": (set(), "refused"),
        "plan_abandoned": (set(), "rolling_back"),
        "approval_recorded": ({"prepared"}, "prepared"),
        "approved": ({"prepared"}, "approved"),
        "rejected": ({"prepared"}, "rolling_back"),
        "expired": ({"prepared"}, "rolling_back"),
        "canceled": ({"prepared"}, "rolling_back"),
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
        "task_awaits_sign_off": ({"working"}, "auth-required"),
        "task_resumed": ({"auth-required"}, "working"),
        "task_declined": ({"working"}, "rejected"),
        "task_completed": ({"working"}, "completed"),
        "task_failed": ({"submitted", "working", "auth-required"}, "failed"),
        "task_canceled": (OPEN_TASK, "canceled"),
    },
}
VERDICTS = {"approval_recorded": "approve", "approved": "approve", "rejected": "reject"}
KINDS = {"NONE": {"system", "user"}, "SUPERVISOR": {"agent", "user"}, "HUMAN": {"user"}}
OF_THE_PROPOSER = {"prepared", "refused", "plan_abandoned", "canceled"}
OF_THE_SYSTEM = {"claimed", "expired", "retried", "late_receipt"}
AFTER_A_CLAIM = {"receipt_kept", "late_receipt"}

FIXED = (
    "id", "tenant", "proposed_by", "proposed_by_name", "stated_reason", "run_id", "step_id",
    "trace_id", "traceparent", "tool", "owner_service", "risk_level", "required_approver",
    "consequence_level", "quorum", "payload", "arguments", "input_hash", "operation_key",
    "action_summary", "warnings", "amount", "currency", "held", "hold_expires_at",
    "intent_digest", "created_at", "expires_at", "retain_until",
)  # fmt: skip
AS_JSON = {"payload", "arguments", "warnings", "held", "result", "settlement"}
OUTCOME = (
    "decided_at", "ended_at", "receipt", "receipt_url", "result", "ending", "ending_reason",
    "compensation_receipt", "late_receipt", "settlement",
)  # fmt: skip
# What is shown as it is, besides the id and the money.
SHOWN = (
    "tenant", "tool", "proposed_by", "action_summary", "warnings",
    "consequence_level", "risk_level", "arguments", "operation_key",
)  # fmt: skip
EVENT = (
    "previous_hash", "subject", "seq", "tenant", "kind", "from_state", "to_state", "principal",
    "principal_name", "via", "reason", "details", "at",
)  # fmt: skip

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
    return sha256(text.encode()) if column == "result" else text


# --- one history ------------------------------------------------------------------------------


class History:
    """The row of one subject, its decisions and its events, as the export has them."""

    def __init__(self, subject: str) -> None:
        self.subject = subject
        self.rows: list[Record] = []
        self.decisions: list[Record] = []
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
                yield from (f"decision {one['id']} has no events." for one in self.decisions)
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
        if family == "transaction":
            yield from row_faults(row, self.events)
            yield from sign_off_faults(row, self.events)
            yield from decision_faults(self.decisions, self.events)


def says(event: Record) -> Record:
    try:
        details = json.loads(event["details"])
    except ValueError:
        return {}
    return details if isinstance(details, dict) else {}


def chain_faults(family: str, events: list[Record]) -> Iterator[str]:
    before = {"seq": 0, "hash": "", "to_state": "", "tenant": events[0]["tenant"]}
    for event in events:
        name = f"event {event['id']} of {family} {event['subject']}"
        if event["seq"] != before["seq"] + 1:
            yield f"event {before['seq'] + 1} of {family} {event['subject']} is missing."
        elif (event["previous_hash"], event["from_state"]) != (before["hash"], before["to_state"]):
            yield f"{name} does not follow the one before it."
        if event["hash"] != sha256(netstrings(text_of(field, event[field]) for field in EVENT)):
            yield f"{name} was changed."
        if event["tenant"] != before["tenant"]:
            yield f"{name} has another tenant."
        yield from (f"{name}: {fault}" for fault in move_faults(family, event))
        before = event


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


def row_faults(row: Record, events: list[Record]) -> Iterator[str]:
    name, first = f"transaction {row['id']}", says(events[0])
    if first.get("row_digest") != sha256(netstrings(text_of(c, row[c]) for c in FIXED)):
        yield f"{name} is not what was prepared."
    for column in ("intent_digest", "quorum", "required_approver", "input_hash"):
        if first.get(column) != row[column]:
            yield f"{name}: {column} is not the sealed one."
    if row["intent_digest"] not in intent_digests(row):
        yield f"{name} is not what was shown: its intent digest is of something else."
    if (row["tenant"], row["proposed_by"]) != (events[0]["tenant"], events[0]["principal"]):
        yield f"{name}: tenant or proposer is not that of its first event."
    if any(event["transaction_id"] != row["id"] for event in events):
        yield f"{name}: an event of it names another transaction."
    sealed = dict.fromkeys(OUTCOME, "") | {"result": sha256(b"null"), "settlement": "null"}
    for event in events:
        sets = says(event).get("sets")
        sealed |= sets if isinstance(sets, dict) else {}
    for column in OUTCOME:
        if sealed[column] != outcome_text(column, row[column]):
            yield f"{name}: {column} is not what its events sealed."


def intent_digests(row: Record) -> Iterator[str]:
    """One for each number of decimals that a currency may have."""
    shown = {"transaction_id": row["id"], "financial_impact": None, **{c: row[c] for c in SHOWN}}
    if row["amount"] is None:
        yield sha256(canonical(shown).encode())
        return
    amount = Decimal(row["amount"])
    for decimals in range(7):
        if round(amount, decimals) == amount:
            impact = {"amount": f"{amount:.{decimals}f}", "currency": row["currency"]}
            yield sha256(canonical({**shown, "financial_impact": impact}).encode())


def sign_off_faults(row: Record, events: list[Record]) -> Iterator[str]:
    first, proposer = says(events[0]), events[0]["principal"]
    voters: set[str] = set()
    approvers: set[str] = set()
    was_claimed = False
    for event in events:
        name = f"event {event['id']} of transaction {row['id']}"
        kind, who = event["kind"], event["principal"]
        if who == proposer and kind not in OF_THE_PROPOSER:
            yield f"{name}: {kind} by the proposer."
        if kind == "canceled" and says(event).get("in_place_of", who) != proposer:
            yield f"{name}: canceled by somebody else."
        if kind in OF_THE_SYSTEM and not who.startswith("system:"):
            yield f"{name}: {kind} by {who}."
        if kind in VERDICTS:
            faults = list(vote_faults(event, row, first, voters))
            yield from (f"{name}: {fault}" for fault in faults)
            voters.add(who)
            if not faults and kind != "rejected":
                approvers.add(who)
        if kind in AFTER_A_CLAIM and not was_claimed:
            yield f"{name}: {kind}, and nothing was ever carried out."
        was_claimed = was_claimed or kind == "claimed"
        if kind in ("approved", "claimed") and not is_enough(approvers, first):
            yield f"{name}: there are not enough approvals."


def vote_faults(event: Record, row: Record, first: Record, voters: set[str]) -> Iterator[str]:
    said, who = says(event), event["principal"]
    if said.get("intent_digest") != first.get("intent_digest"):
        yield "a vote on something else."
    if said.get("verdict") != VERDICTS[event["kind"]]:
        yield "the verdict is not that of the move."
    if who in voters:
        yield f"a second vote of {who}."
    kind = who.partition(":")[0]
    may = kind in KINDS.get(first.get("required_approver", ""), set())
    if not may or (kind == "system" and who != "system:policy"):
        yield f"the contract takes no vote of {who}."
    if int(event["at"]) > int(row["expires_at"]):
        yield "a vote after the time was up."


def is_enough(approvers: set[str], first: Record) -> bool:
    if first.get("required_approver") == "NONE" and "system:policy" in approvers:
        return True
    quorum = first.get("quorum")
    return isinstance(quorum, int) and len(approvers) >= max(quorum, 1)


def decision_faults(decisions: list[Record], events: list[Record]) -> Iterator[str]:
    votes = {event["principal"]: event for event in events if event["kind"] in VERDICTS}
    for one in decisions:
        name = f"decision {one['id']} of transaction {one['transaction_id']}"
        event = votes.pop(one["principal"], None)
        if event is None:
            yield f"{name} was never sealed."
            continue
        said = says(event)
        sealed = (said.get("verdict"), said.get("intent_digest"), said.get("decision_at"))
        plain = ("principal_name", "via", "reason")
        if (*sealed, *(event[c] for c in plain)) != (
            one["verdict"], one["intent_digest"], one["at"], *(one[c] for c in plain),
        ):  # fmt: skip
            yield f"{name} is not what event {event['id']} sealed."
    for event in votes.values():
        yield f"event {event['id']} of transaction {event['subject']} has lost its decision."


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
    last = 0
    for point in sorted(points, key=lambda point: int(point["size"])):
        name = f"checkpoint of {point['size']} events"
        text, _, signatures = point["note"].rpartition("\n\n")
        text += "\n"
        if not is_signed(text, signatures, keys):
            yield f"the {name} is not signed by a key that is trusted."
        while tree.size < point["size"] and (event_id := next(ids, None)) is not None:
            last = event_id
            tree.append(bytes.fromhex(leaves[event_id]))
        said = text.split("\n")[1:3]
        if said != [str(tree.size), base64.b64encode(tree.root()).decode()]:
            yield f"the events under the {name} are not those that it signed."
        if (point["upto_event"], point["root"]) != (last, tree.root().hex()):
            yield f"the {name} was changed."


def tail_faults(points: list[Record], times: dict[int, int], patience_s: float) -> Iterator[str]:
    """Events that should be under a checkpoint by now. Deleted checkpoints show here."""
    upto = max((int(point["upto_event"]) for point in points), default=0)
    oldest = (time.time() - patience_s) * 1e6
    old = sorted(event_id for event_id, at in times.items() if event_id > upto and at < oldest)
    if old:
        yield f"{len(old)} events from event {old[0]} on are old, and under no checkpoint."


def outside_faults(points: list[Record], text: str) -> Iterator[str]:
    """Checkpoints that were published outside, notes one after the other, must still be here."""
    ours = {point["note"].rpartition("\n\n")[0] for point in points}
    for note in text.split("\n\n"):
        lines = [line for line in note.splitlines() if line and not line.startswith("— ")]
        if len(lines) == 3 and "\n".join(lines) not in ours:
            yield f"the checkpoint of {lines[1]} events that was published outside is not here."


# --- all of it --------------------------------------------------------------------------------


def verify(
    lines: Iterable[str], keys: list[bytes], patience_s: float = 300.0, outside: str = ""
) -> Iterator[str]:
    """Every fault of an export, as a sentence."""
    points: list[Record] = []
    leaves: dict[int, str] = {}
    times: dict[int, int] = {}
    counts: Counter[str] = Counter()
    end: Record = {}
    history = History("")
    for record in map(json.loads, lines):
        kind = record["type"]
        counts[kind] += 1
        if kind == "checkpoint":
            points.append(record)
        elif kind == "end":
            end = record["counts"]
        elif kind != "ledger":
            subject = record.get("subject") or record.get("transaction_id") or record["id"]
            if subject != history.subject:
                yield from history.faults()
                history = History(subject)
            if kind == "event":
                leaves[record["id"]], times[record["id"]] = record["hash"], int(record["at"])
                history.events.append(record)
            else:
                (history.decisions if kind == "decision" else history.rows).append(record)
    yield from history.faults()
    if not end or any(counts[name] != count for name, count in end.items()):
        yield "the export is not complete."
    yield from checkpoint_faults(points, leaves, keys)
    yield from tail_faults(points, times, patience_s)
    yield from outside_faults(points, outside)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("export")
    parser.add_argument("--public-key", action="append", required=True, help="hexadecimal")
    parser.add_argument("--patience", type=float, default=300.0, help="seconds")
    parser.add_argument("--against", help="a file of checkpoints that were published outside")
    asked = parser.parse_args()
    outside = ""
    if asked.against:
        with open(asked.against, encoding="utf-8") as file:
            outside = file.read()
    keys = [bytes.fromhex(key) for key in asked.public_key]
    count = 0
    with open(asked.export, encoding="utf-8") as file:
        for fault in verify(file, keys, asked.patience, outside):
            count += 1
            print(fault)
    print(f"{count} faults." if count else "The ledger is whole.")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
