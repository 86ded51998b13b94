"""The invariants of a storm. Each compares records that do not know of each other.

``INVARIANTS`` has a sentence for each and the function that returns a line per violation.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator

from bench.chaos.records import Line, Records

FINAL = {"refused", "committed", "aborted", "failed", "compensated"}
WITHOUT_EFFECT = {"refused", "aborted", "failed"}
WITH_EFFECT = {"committed", "compensating", "compensated"}
# The events that an acknowledged verdict has left, by the verdict.
EVENTS_OF = {
    "approve": {"approval_recorded", "approved"},
    "undo": {"approval_withdrawn"},
    "reject": {"rejected"},
    "cancel": {"canceled"},
    "compensate": {"compensation_started"},
}
TIMEOUT_S = 3.0  # of every contract
# After an answer came, its worker records it within so long, if it lives: the database may be away.
RECORDED_WITHIN_S = 10.0
# No fault of these takes an answer from a worker that lives.
NO_EXCUSE = ("web", "courier", "Redis", "redis", "PostgreSQL", "postgres", "disk", "jobs")
STOOD_STILL = "worker stood still before its look"  # of a scene
OVERDUE_S = 30.0  # after this long nothing that is due may still wait


def acknowledged_prepares_have_their_row(records: Records) -> Iterator[str]:
    """And one key stands for one transaction, whoever was told of it, and when."""
    told: dict[str, set[str]] = defaultdict(set)
    for line in records.did("prepared"):
        told[f"{line['by']} {line['key']}"].add(line["id"])
    for key, ids in told.items():
        if len(ids) > 1:
            yield f"{key}: its clients were told of {len(ids)} transactions: {sorted(ids)}"
        for transaction in ids:
            if transaction not in records.rows:
                yield f"{key}: transaction {transaction} was acknowledged and is not there"
            elif records.keys.get(key) != transaction:
                yield f"{key}: stands for {records.keys.get(key)}, its client has {transaction}"
    for line in records.did("task_accepted"):
        if line["task"] not in records.tasks:
            yield f"{line['key']}: task {line['task']} was acknowledged and is not there"


def acknowledged_decisions_have_their_event(records: Records) -> Iterator[str]:
    for line in records.did("decided"):
        events = records.events.get(line["id"], [])
        kinds = EVENTS_OF[line["verdict"]]
        if not any(e["kind"] in kinds and e["principal"] == line["by"] for e in events):
            yield f"{line['id']}: {line['by']} was told that “{line['verdict']}” is recorded"


def clients_were_told_the_truth(records: Records) -> Iterator[str]:
    """Whoever read of an end or of a receipt finds it in the ledger for good."""
    for line in records.did("read"):
        row = records.rows.get(line["id"])
        if row is None:
            yield f"{line['id']}: a client read it and it is not there"
        elif line["receipt"] and line["receipt"] != row["receipt"]:
            yield f"{line['id']}: a client read receipt {line['receipt']}, not {row['receipt']}"
        elif line["state"] in FINAL and not _may_follow(line["state"], row):
            yield f"{line['id']}: a client read {line['state']}, and it is {row['state']}"


def _may_follow(told: str, row: dict[str, str]) -> bool:
    """True for the same end; a commit may also be compensated, and a late receipt may come."""
    if told == "committed":
        return row["state"] in WITH_EFFECT
    return row["state"] == told


def repetitions_are_told_the_same(records: Records) -> Iterator[str]:
    """Also after the end, and marked as told before: only one answer to a key is the first."""
    told: dict[str, Line] = {}
    firsts = Counter[str]()
    for line in records.did("prepared", "refused", "gave_up"):
        name = f"{line['by']} {line['key']}"
        if line["did"] != "prepared":
            if name in told:
                yield f"{name}: was acknowledged, and {line['did']} when it was repeated"
            continue
        before = told.setdefault(name, line)
        if (before["status"], before["answer"]) != (line["status"], line["answer"]):
            yield f"{name}: was told something else when it was repeated"
        firsts[name] += not line["is_replay"]
    for name, count in firsts.items():
        if count > 1:
            yield f"{name}: {count} answers say that they are the first"


def answers_in_time_are_commits(records: Records) -> Iterator[str]:
    """Whatever becomes of the database; only who carries the answer may be broken."""
    for line in records.outside_did("answered"):
        row = records.rows.get(line["transaction"])
        is_in_time = line["at"] - line["arrived"] < TIMEOUT_S - 1
        if row is None or not is_in_time or row["state"] in WITH_EFFECT:
            continue
        during = line["arrived"] - 1, line["at"] + RECORDED_WITHIN_S
        if not any(not f["kind"].startswith(NO_EXCUSE) for f in _faults(records, *during)):
            yield f"{row['id']}: {row['state']}, and was answered in time with {line['receipt']}"


def doubts_are_explained(records: Records) -> Iterator[str]:
    """By a fault while the call was under way, or by what the outside did to it."""
    treated = {(line["transaction"], line["attempt"]) for line in records.outside_did("treated")}
    for transaction, events in records.events.items():
        claims, began = 0, 0.0
        for event in events:
            if event["kind"] in {"claimed", "retried"}:
                claims, began = claims + 1, event["at"]
            if event["kind"] != "fell_in_doubt" or (transaction, claims) in treated:
                continue
            if not any(_faults(records, began - 1, event["at"])):
                yield f"{transaction}: fell in doubt at attempt {claims}, and nothing was broken"


def no_call_after_its_lease(records: Records) -> Iterator[str]:
    """But for a fault between the worker's look at its lease and the outside."""
    for line in records.outside_did("late"):
        between = line["lease_until"] - 1, line["at"]
        kinds = {fault["kind"] for fault in _faults(records, *between)}
        if kinds <= {STOOD_STILL} or all(kind.startswith(NO_EXCUSE) for kind in kinds):
            yield f"{line['transaction']}: was called after the lease of attempt {line['attempt']}"


def _faults(records: Records, since: float, until: float) -> Iterator[Line]:
    """Those that were not mended before, nor began later."""
    for fault in records.faults:
        if fault["at"] <= until and fault["at"] + fault["seconds"] >= since:
            yield fault


def nothing_begins_while_it_is_stopped(records: Records) -> Iterator[str]:
    for brake in records.brakes:
        for row in records.rows.values():
            if row["proposed_by"] != brake["agent"]:
                continue
            for event in records.events.get(row["id"], []):
                if event["kind"] == "claimed" and brake["from"] < event["at"] < brake["until"]:
                    yield f"{row['id']}: was begun while {brake['agent']} was stopped"


def one_effect_per_operation(records: Records) -> Iterator[str]:
    counts = Counter(line["key"] for line in records.outside_did("effect"))
    for key, count in counts.items():
        if count > 1:
            yield f"{key}: {count} effects"


def effects_have_their_row(records: Records) -> Iterator[str]:
    """A row of the same operation that was signed off; and nothing was undone without an order."""
    for line in records.outside_did("effect"):
        row = records.rows.get(line["transaction"])
        if row is None or row["operation_key"] != line["key"]:
            yield f"{line['receipt']} of {line['key']}: there is no such transaction"
        elif "approved" not in records.kinds_of(line["transaction"]):
            yield f"{line['receipt']} of {line['transaction']}: nobody had signed it off"
    by_receipt = {row["receipt"]: row["id"] for row in records.rows.values() if row["receipt"]}
    for line in records.outside_did("undo"):
        kinds = records.kinds_of(by_receipt.get(line["receipt"], ""))
        if "compensation_started" not in kinds:
            yield f"{line['receipt']}: was undone, and nobody had ordered it"


def effects_are_what_was_signed(records: Records) -> Iterator[str]:
    """As the last revision has it, and with the hold that was not released."""
    released = {line["hold"] for line in records.outside_did("release")}
    for line in records.outside_did("effect"):
        row = records.rows.get(line["transaction"])
        signed = None if row is None else row["arguments"].get("times", 1)
        if signed not in (None, line["times"]):
            yield f"{line['transaction']}: done {line['times']} times, and signed off {signed}"
        if line["hold"] and line["hold"] in released:
            yield f"{line['transaction']}: done with {line['hold']}, which was released"


def commits_have_a_true_receipt(records: Records) -> Iterator[str]:
    effects = {line["receipt"]: line["key"] for line in records.outside_did("effect")}
    undone = {line["undo_receipt"]: line["receipt"] for line in records.outside_did("undo")}
    for row in records.rows.values():
        if row["state"] in WITH_EFFECT and effects.get(row["receipt"]) != row["operation_key"]:
            yield f"{row['id']}: the outside does not know its receipt “{row['receipt']}”"
        undid = undone.get(row["compensation_receipt"])
        if row["state"] == "compensated" and undid != row["receipt"]:
            yield f"{row['id']}: “{row['compensation_receipt']}” undid nothing of it"


def what_ended_without_effect_had_none(records: Records) -> Iterator[str]:
    """Rejected, expired, canceled, failed. A receipt that came late and waits for an operator is
    on the desk: the row says that it had an effect."""
    for line in records.outside_did("effect"):
        row = records.rows.get(line["transaction"])
        if row is not None and row["state"] in WITHOUT_EFFECT and not row["late_receipt"]:
            yield (
                f"{row['id']}: {row['state']} ({row['ending']}), and the outside has "
                f"{line['receipt']}"
            )


def holds_are_released(records: Records) -> Iterator[str]:
    """Reserved resources of a transaction are used or released when it ends.

    A hold without a row belongs to a request that was killed while it planned, and was never
    acknowledged; only its own term ends it (docs/tool-authors.md). Those are counted apart.
    """
    used = {line["hold"] for line in records.outside_did("effect")}
    released = _released(records)
    for line in records.outside_did("hold"):
        row = records.rows.get(line["transaction"])
        if row is not None and row["state"] in FINAL and line["hold"] not in used | released:
            yield f"{line['hold']} of {row['id']} ({row['state']}) is still held"


def _released(records: Records) -> set[str]:
    """Holds that were released, by their names or with all of their transaction."""
    releases = records.outside_did("release")
    of = {line["transaction"] for line in releases if not line["hold"]}
    named = {line["hold"] for line in releases}
    return named | {
        line["hold"] for line in records.outside_did("hold") if line["transaction"] in of
    }


def orphaned_holds(records: Records) -> int:
    """Holds of requests that were killed between plan and insert: they lapse by themselves."""
    released = _released(records)
    return sum(
        line["hold"] not in released and line["transaction"] not in records.rows
        for line in records.outside_did("hold")
    )


def the_ledger_is_whole(records: Records) -> Iterator[str]:
    if not records.proofs:
        yield "no verifier has run"
    for name, fault in records.proofs.items():
        if fault:
            yield f"{name}: {fault}"


def deliveries_arrived(records: Records) -> Iterator[str]:
    """Each webhook that was owed is with its receiver, or is going to be tried again."""
    received = {line["message"] for line in records.outside_did("webhook")}
    for delivery in records.deliveries:
        name = f"delivery {delivery['id']} ({delivery['channel']})"
        if delivery["state"] == "given_up":
            yield f"{name} was given up: {delivery['error']}"
        elif delivery["state"] == "waiting" and delivery["overdue_s"] > OVERDUE_S:
            yield f"{name} is {delivery['overdue_s']:.0f} s overdue"
        elif _was_sent(delivery) and f"msg_{delivery['id']}" not in received:
            yield f"{name} is marked as sent, and was never received"
    addressed = {d["transaction"] for d in records.deliveries if d["recipient"]}
    for row in records.rows.values():
        ended = row["state"] in FINAL - {"refused"} and row["ending"] != "abandoned"
        if ended and row["id"] not in addressed:
            yield f"{row['id']}: its agent was never to be told that it is {row['state']}"


def _was_sent(delivery: Line) -> bool:
    is_webhook = delivery["channel"] == "webhook" and delivery["recipient"]
    return bool(is_webhook and delivery["state"] == "done")


def everything_has_ended(records: Records) -> Iterator[str]:
    """Or is in doubt, and would not be honest otherwise."""
    for row in records.rows.values():
        if row["state"] in FINAL:
            continue
        if row["state"] != "in_doubt":
            yield f"{row['id']}: still {row['state']} ({row['error']})"
        elif row["tool"] in records.retry_safe and row["attempts"] < records.most_attempts:
            next_in_s = row["next_attempt_in_s"]
            if next_in_s is None or next_in_s < -OVERDUE_S:
                yield f"{row['id']}: in doubt, and nobody will look again ({row['error']})"


Invariant = Callable[[Records], Iterator[str]]
INVARIANTS: dict[str, Invariant] = {
    "every acknowledged prepare has its row": acknowledged_prepares_have_their_row,
    "every acknowledged decision has its event": acknowledged_decisions_have_their_event,
    "what a client was told stays true": clients_were_told_the_truth,
    "who repeats a key is told the same": repetitions_are_told_the_same,
    "an answer in time is a commit": answers_in_time_are_commits,
    "what fell in doubt is explained": doubts_are_explained,
    "nothing is called after its lease": no_call_after_its_lease,
    "nothing begins while it is stopped": nothing_begins_while_it_is_stopped,
    "no operation took effect twice": one_effect_per_operation,
    "no effect without its row and its sign-off": effects_have_their_row,
    "what is done is the revision that was signed": effects_are_what_was_signed,
    "no commit without a true receipt": commits_have_a_true_receipt,
    "nothing rejected, expired or canceled was carried out": what_ended_without_effect_had_none,
    "no hold is left over": holds_are_released,
    "the ledger is whole": the_ledger_is_whole,
    "no delivery is lost": deliveries_arrived,
    "everything has ended or is in doubt for a reason": everything_has_ended,
}


def violations(records: Records) -> dict[str, list[str]]:
    """Violations of each invariant, by its sentence; empty lists are what a storm should leave."""
    return {sentence: list(find(records)) for sentence, find in INVARIANTS.items()}
