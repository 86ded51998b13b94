"""The checker of the storm notices each kind of violation, in records that were doctored."""

from __future__ import annotations

from typing import Any

import pytest

from bench.chaos import checker
from bench.chaos.records import Records

ADA, ALICE = "agent:storm/ada", "user:1"


def row(number: int, **columns: Any) -> dict[str, Any]:
    usual = {
        "id": f"t{number}",
        "state": "committed",
        "ending": "",
        "tool": "transfer",
        "operation_key": f"transfer:storm:r{number}",
        "receipt": f"rc-{number}",
        "late_receipt": "",
        "attempts": 1,
        "proposed_by": ADA,
        "compensation_receipt": "",
        "error": "",
        "arguments": {},
        "next_attempt_in_s": None,
    }
    return usual | columns


def prepared(number: int, **more: Any) -> dict[str, Any]:
    told = {"did": "prepared", "by": ADA, "key": f"k{number}", "id": f"t{number}"}
    return told | {"status": 201, "answer": f"a{number}", "is_replay": False} | more


def delivery(number: int, **columns: Any) -> dict[str, Any]:
    usual = {
        "id": number,
        "channel": "webhook",
        "recipient": "storm/ada",
        "state": "done",
        "error": "",
        "transaction": f"t{number}",
        "overdue_s": 0.0,
    }
    return usual | columns


@pytest.fixture
def records() -> Records:
    """What a storm should leave: a commit, a rejection, an expired hold, a compensation, a task."""
    rows = [
        row(1),
        row(2, state="aborted", ending="rejected", receipt=""),
        row(3, state="aborted", ending="expired", receipt="", tool="reserve"),
        row(4, state="compensated", compensation_receipt="undone-4"),
        row(5, state="in_doubt", tool="demolish", receipt=""),
    ]
    kept = Records(
        clients=[prepared(n) for n in range(1, 6)],
        rows={each["id"]: each for each in rows},
        keys={f"{ADA} k{n}": f"t{n}" for n in range(1, 6)},
        tasks={"a1": {"id": "a1", "state": "completed", "transaction": "t1"}},
        deliveries=[delivery(n) for n in range(1, 5)],
        proofs={"verify_ledger": ""},
    )
    kept.clients += [
        {"did": "decided", "by": ALICE, "id": "t1", "verdict": "approve"},
        {"did": "decided", "by": ALICE, "id": "t2", "verdict": "reject"},
        {"did": "read", "id": "t1", "state": "committed", "receipt": "rc-1"},
        {"did": "task_accepted", "key": "k9", "task": "a1"},
    ]
    kept.outside += [effect(1), effect(4), effect(5, tool="demolish")]
    kept.outside += [
        {"did": "undo", "receipt": "rc-4", "undo_receipt": "undone-4"},
        {"did": "hold", "hold": "hold-3", "transaction": "t3"},
        {"did": "release", "hold": "hold-3", "transaction": "t3"},
    ]
    kept.outside += [{"did": "webhook", "message": f"msg_{n}"} for n in range(1, 5)]
    happened = {
        "t1": ["prepared", "approved", "claimed", "committed"],
        "t2": ["prepared", "rejected", "aborted"],
        "t3": ["prepared", "expired", "aborted"],
        "t4": ["prepared", "approved", "claimed", "committed", "compensation_started"],
        "t5": ["prepared", "approved", "claimed", "fell_in_doubt"],
    }
    for transaction, kinds in happened.items():
        kept.events[transaction] = [
            {"kind": kind, "principal": ALICE, "at": 100.0 + n} for n, kind in enumerate(kinds)
        ]
    kept.faults += [
        {"kind": "PostgreSQL absent", "at": 90.0, "seconds": 20.0},
        {"kind": "outside frozen", "at": 102.5, "seconds": 0.1},
    ]
    kept.outside.append(answered(1))
    return kept


def effect(number: int, **more: Any) -> dict[str, Any]:
    usual = {
        "did": "effect",
        "receipt": f"rc-{number}",
        "key": f"transfer:storm:r{number}",
        "transaction": f"t{number}",
        "tool": "transfer",
        "times": 1,
        "hold": "",
    }
    return usual | more


def answered(number: int, **more: Any) -> dict[str, Any]:
    usual = {"did": "answered", "receipt": f"rc-{number}", "transaction": f"t{number}"}
    return usual | {"attempt": 1, "arrived": 130.0, "at": 131.0} | more


def broken(records: Records) -> set[str]:
    return {sentence for sentence, found in checker.violations(records).items() if found}


def test_what_a_storm_should_leave_breaks_nothing(records):
    assert broken(records) == set()


def lose_a_row(records: Records) -> None:
    """With all that the ledger has of it; the outside has not heard of it either."""
    del records.rows["t2"]
    del records.keys[f"{ADA} k2"]
    records.clients = [line for line in records.clients if line["did"] != "decided"]


def lose_a_task(records: Records) -> None:
    records.tasks.clear()


def tell_two_ids_for_one_key(records: Records) -> None:
    records.clients.append(prepared(1, id="t2", is_replay=True))


def forget_a_rejection(records: Records) -> None:
    records.events["t2"] = [e for e in records.events["t2"] if e["kind"] != "rejected"]


def give_a_decision_to_somebody_else(records: Records) -> None:
    for event in records.events["t1"]:
        event["principal"] = "user:2"


def take_back_a_commit(records: Records) -> None:
    records.clients.append({"did": "read", "id": "t2", "state": "committed", "receipt": ""})


def tell_of_another_receipt(records: Records) -> None:
    records.clients.append({"did": "read", "id": "t1", "state": "committed", "receipt": "rc-9"})


def act_twice(records: Records) -> None:
    records.outside.append(effect(1, receipt="rc-11"))


def act_without_a_row(records: Records) -> None:
    records.outside.append(effect(8))


def act_without_sign_off(records: Records) -> None:
    records.events["t1"] = [e for e in records.events["t1"] if e["kind"] != "approved"]
    records.clients = [line for line in records.clients if line["did"] != "decided"]


def undo_without_an_order(records: Records) -> None:
    records.outside.append({"did": "undo", "receipt": "rc-1", "undo_receipt": "undone-1"})


def invent_a_receipt(records: Records) -> None:
    records.outside = [line for line in records.outside if line.get("receipt") != "rc-1"]


def take_the_receipt_of_another(records: Records) -> None:
    records.rows["t1"]["receipt"] = "rc-4"
    records.clients = [line for line in records.clients if line["did"] != "read"]


def invent_a_compensation(records: Records) -> None:
    records.outside = [line for line in records.outside if line["did"] != "undo"]


def carry_out_what_was_rejected(records: Records) -> None:
    records.outside.append(effect(2))
    records.events["t2"].append({"kind": "approved", "principal": ALICE})


def carry_out_what_expired(records: Records) -> None:
    records.outside.append(effect(3))
    records.events["t3"].append({"kind": "approved", "principal": ALICE})


def carry_out_what_was_changed(records: Records) -> None:
    records.rows["t1"]["arguments"] = {"times": 7}


def use_a_released_hold(records: Records) -> None:
    records.outside[0]["hold"] = "hold-3"


def keep_a_hold(records: Records) -> None:
    records.outside = [line for line in records.outside if line["did"] != "release"]


def break_the_chain(records: Records) -> None:
    records.proofs["verify_ledger"] = "The ledger is broken: 1 fault"


def verify_nothing(records: Records) -> None:
    records.proofs.clear()


def lose_a_webhook(records: Records) -> None:
    records.outside = [line for line in records.outside if line.get("message") != "msg_1"]


def give_up_a_delivery(records: Records) -> None:
    records.deliveries[0]["state"] = "given_up"


def leave_a_delivery_behind(records: Records) -> None:
    records.deliveries[0] |= {"state": "waiting", "overdue_s": 99.0}


def never_address_a_delivery(records: Records) -> None:
    records.deliveries = records.deliveries[1:]


def leave_a_row_at_work(records: Records) -> None:
    records.rows["t1"]["state"] = "committing"
    records.clients = [line for line in records.clients if line["did"] != "read"]
    records.outside = [line for line in records.outside if line["did"] != "answered"]


def forget_what_is_in_doubt(records: Records) -> None:
    records.rows["t5"]["tool"] = "transfer"


def say_something_else_to_who_repeats(records: Records) -> None:
    records.clients.append(prepared(1, answer="other", is_replay=True))


def answer_a_key_as_new_again(records: Records) -> None:
    records.clients.append(prepared(2))


def refuse_who_repeats(records: Records) -> None:
    refused = {"did": "refused", "by": ADA, "key": "k2", "status": 409, "code": "busy"}
    records.clients.append(refused)


def throw_a_receipt_away(records: Records) -> None:
    """The database was away, which is no excuse."""
    records.outside.append(answered(5))
    records.faults.append({"kind": "PostgreSQL killed", "at": 130.5, "seconds": 1.0})


def doubt_without_a_reason(records: Records) -> None:
    records.faults.clear()


def call_after_the_lease(records: Records) -> None:
    late = {"did": "late", "transaction": "t1", "attempt": 1, "lease_until": 140.0, "at": 150.0}
    records.outside.append(late)


def begin_what_was_stopped(records: Records) -> None:
    claim = next(event for event in records.events["t1"] if event["kind"] == "claimed")
    records.brakes.append({"agent": ADA, "from": claim["at"] - 1, "until": claim["at"] + 1})


DOCTORED = {
    say_something_else_to_who_repeats: "who repeats a key is told the same",
    answer_a_key_as_new_again: "who repeats a key is told the same",
    refuse_who_repeats: "who repeats a key is told the same",
    throw_a_receipt_away: "an answer in time is a commit",
    doubt_without_a_reason: "what fell in doubt is explained",
    begin_what_was_stopped: "nothing begins while it is stopped",
    call_after_the_lease: "nothing is called after its lease",
    lose_a_row: "every acknowledged prepare has its row",
    lose_a_task: "every acknowledged prepare has its row",
    tell_two_ids_for_one_key: "every acknowledged prepare has its row",
    forget_a_rejection: "every acknowledged decision has its event",
    give_a_decision_to_somebody_else: "every acknowledged decision has its event",
    take_back_a_commit: "what a client was told stays true",
    tell_of_another_receipt: "what a client was told stays true",
    act_twice: "no operation took effect twice",
    act_without_a_row: "no effect without its row and its sign-off",
    act_without_sign_off: "no effect without its row and its sign-off",
    undo_without_an_order: "no effect without its row and its sign-off",
    invent_a_receipt: "no commit without a true receipt",
    take_the_receipt_of_another: "no commit without a true receipt",
    invent_a_compensation: "no commit without a true receipt",
    carry_out_what_was_rejected: "nothing rejected, expired or canceled was carried out",
    carry_out_what_expired: "nothing rejected, expired or canceled was carried out",
    carry_out_what_was_changed: "what is done is the revision that was signed",
    use_a_released_hold: "what is done is the revision that was signed",
    keep_a_hold: "no hold is left over",
    break_the_chain: "the ledger is whole",
    verify_nothing: "the ledger is whole",
    lose_a_webhook: "no delivery is lost",
    give_up_a_delivery: "no delivery is lost",
    leave_a_delivery_behind: "no delivery is lost",
    never_address_a_delivery: "no delivery is lost",
    leave_a_row_at_work: "everything has ended or is in doubt for a reason",
    forget_what_is_in_doubt: "everything has ended or is in doubt for a reason",
}


@pytest.mark.parametrize("doctor", DOCTORED, ids=lambda doctor: doctor.__name__)
def test_the_checker_notices_it_and_nothing_else(records, doctor):
    doctor(records)

    assert broken(records) == {DOCTORED[doctor]}


def test_every_invariant_is_broken_by_some_doctored_record():
    assert set(DOCTORED.values()) == set(checker.INVARIANTS)


def test_a_late_receipt_that_waits_for_an_operator_is_no_violation(records):
    """The row says that it had an effect, and the operation cannot be begun again."""
    records.rows["t2"]["late_receipt"] = "rc-2"
    records.outside.append(effect(2))
    records.events["t2"].append({"kind": "approved", "principal": ALICE})

    assert broken(records) == set()


def test_a_worker_that_was_broken_excuses_a_lost_receipt_and_a_late_call(records):
    throw_a_receipt_away(records)
    call_after_the_lease(records)
    records.faults.append({"kind": "worker frozen", "at": 130.5, "seconds": 15.0})

    assert broken(records) == set()
