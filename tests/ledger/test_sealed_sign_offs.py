"""A worker believes sealed events, not rows that the application may write."""

from __future__ import annotations

import json

import pytest
from django.db import DatabaseError, connection, models
from django.db.models import F
from django.db.transaction import atomic

from ledger import execution
from ledger.errors import Expired
from ledger.models import Decision, Event, Transaction
from ledger.principals import Principal
from ledger.seals import intents, seals
from ledger.states import State
from ledger.transactions import coordinator


def _forge_decision(row, principal="user:alice"):
    Decision.objects.create(
        transaction=row,
        principal=principal,
        principal_name="Alice Moreau",
        verdict="approve",
        intent_digest=row.intent_digest,
        via="web",
    )


def _update(row, **columns):
    Transaction.objects.filter(pk=row.pk).update(**columns)


def test_a_decision_and_a_state_that_were_written_past_the_verbs_carry_nothing_out(
    a_payment, the_world
):
    row = a_payment()
    _forge_decision(row)
    _update(row, state=State.APPROVED, decided_at=F("created_at"))

    execution.commit(row.pk)

    assert the_world.effects == {}
    assert "claimed does not lead out of 'prepared'" in Transaction.objects.get(pk=row.pk).error


def test_a_forged_decision_does_not_help_to_complete_a_quorum(a_transaction, alice, the_world):
    row = a_transaction("scuttle", rocket="r1")
    _forge_decision(row, "user:bob")

    row = coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web")

    assert row.state == State.PREPARED


@pytest.mark.parametrize(
    "change",
    [
        {"quorum": 1},
        {"required_approver": "NONE"},
        {"held": {"hold": "of somebody else"}},
        {"payload": {"reference": "x"}},
        {"proposed_by": "agent:acme/other"},
        {"expires_at": F("expires_at") + models.Value("1 day", models.DurationField())},
    ],
    ids=lambda change: next(iter(change)),
)
def test_what_no_digest_on_a_screen_covers_is_tested_as_well(approved, the_world, change):
    row = approved("scuttle", rocket="r1")
    if "expires_at" in change:
        with connection.cursor() as cursor:
            cursor.execute(
                "UPDATE ledger_transaction SET expires_at = expires_at + interval '1 day' "
                "WHERE id = %s",
                [row.pk],
            )
    else:
        _update(row, **change)

    execution.commit(row.pk)

    assert the_world.effects == {}
    row = Transaction.objects.get(pk=row.pk)
    assert row.error == "The transaction was changed after it was signed off."


def test_nothing_is_compensated_that_nobody_ordered_to_be(approved, the_world):
    row = approved()
    execution.commit(row.pk)
    _update(row, state=State.COMPENSATING)

    execution.compensate(row.pk)

    assert sum(the_world.effects.values()) == 1
    row = Transaction.objects.get(pk=row.pk)
    assert row.state == State.COMPENSATING
    assert "no event made it compensating" in row.error


@pytest.mark.parametrize("change", [{"receipt": "re_other"}, {"result": {"receipt": "re_other"}}])
def test_nothing_is_compensated_by_a_receipt_that_no_event_sealed(
    approved, the_world, alice, change
):
    row = approved()
    execution.commit(row.pk)
    _update(row, **change)
    coordinator.compensate(row.pk, by=alice, via="web", reason="Wrong customer.")

    execution.compensate(row.pk)

    now = Transaction.objects.get(pk=row.pk)
    assert (now.state, now.compensation_receipt) == (State.COMPENSATING, "")
    assert "not what its events sealed" in now.error


def test_nothing_is_let_go_of_that_was_put_there_by_hand(approved, the_world):
    row = approved()
    _update(row, state=State.ROLLING_BACK)

    execution.roll_back(row.pk)

    assert len(the_world.holds) == 1
    assert "no event made it rolling_back" in Transaction.objects.get(pk=row.pk).error


def test_nobody_inquires_about_what_no_event_put_in_doubt(a_payment, the_world):
    row = a_payment()
    the_world.receipts[row.operation_key] = "forged"
    _update(row, state=State.IN_DOUBT, next_attempt_at=F("created_at"))

    execution.commit(row.pk)

    assert Transaction.objects.get(pk=row.pk).state == State.IN_DOUBT


def test_the_first_event_seals_what_decides(a_transaction):
    row = a_transaction("scuttle", rocket="r1")

    said = json.loads(Event.objects.get(subject=row.pk).details)

    assert said == {
        "intent_digest": row.intent_digest,
        "quorum": 2,
        "required_approver": "HUMAN",
        "input_hash": row.input_hash,
        "row_digest": seals.row_digest(row),
        "settled_by_two": True,
        "sets": {},
    }


def test_a_commit_seals_its_receipt_and_the_hash_of_its_result(approved):
    row = approved()
    execution.commit(row.pk)

    row = Transaction.objects.get(pk=row.pk)
    said = json.loads(Event.objects.get(subject=row.pk, kind="committed").details)

    assert said["sets"] == {
        "ended_at": seals.as_text(row.ended_at),
        "receipt": row.receipt,
        "receipt_url": row.receipt_url,
        "result": intents.digest_of(row.result),
        "late_receipt": "",
        "settlement": intents.digest_of(None),
    }


def test_a_vote_seals_what_it_was_on_and_which_way_it_went(a_payment, alice):
    row = a_payment()
    coordinator.reject(row.pk, digest=row.intent_digest, by=alice, via="web", reason="Too much.")

    said = json.loads(Event.objects.get(subject=row.pk, kind="rejected").details)

    assert said["intent_digest"] == row.intent_digest
    assert said["verdict"] == "reject"
    assert said["decision_at"] == seals.as_text(Decision.objects.get().at)
    assert said["sets"]["ending_reason"] == seals.digest_of_text("Too much.")


@pytest.mark.parametrize(
    "change", ["UPDATE ledger_decision SET principal = 'user:bob'", "DELETE FROM ledger_decision"]
)
def test_the_database_refuses_to_change_decisions(approved, change):
    approved()

    with (
        pytest.raises(DatabaseError, match="only ever appended"),
        atomic(),
        connection.cursor() as cursor,
    ):
        cursor.execute(change)


@pytest.mark.django_db(transaction=True)
def test_a_vote_that_waited_for_the_row_until_its_time_was_up_is_too_late(acme, a_payment, alice):
    """The clock of a statement stands still while it waits for a lock; the seal's does not."""
    row = a_payment()
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        cursor.execute(
            "CREATE FUNCTION pg_temp.dawdle() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN PERFORM pg_sleep(0.6); RETURN NEW; END $$"
        )
        cursor.execute("SET session_replication_role = DEFAULT")
        cursor.execute(
            "UPDATE ledger_transaction SET expires_at = clock_timestamp() + interval '0.5 s' "
            "WHERE id = %s",
            [row.pk],
        )
        cursor.execute(
            "CREATE TRIGGER dawdle BEFORE INSERT ON ledger_decision "
            "FOR EACH ROW EXECUTE FUNCTION pg_temp.dawdle()"
        )
    try:
        with pytest.raises(Expired):
            coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web")
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP TRIGGER dawdle ON ledger_decision")

    assert Transaction.objects.get(pk=row.pk).state == State.PREPARED
    assert not Decision.objects.exists()


def test_what_the_policy_signs_off_is_taken_only_where_nobody_is_asked_for(a_payment):
    """The event is sealed, but the sealed contract asks for a person."""
    row = a_payment()
    policy = Principal("system", "policy", "Policy")
    from ledger import states
    from ledger.models import Verdict  # as the application's own role would
    from ledger.transactions import sign_offs
    from ledger.transactions.transitions import advance

    advance(
        row.pk,
        states.APPROVE,
        by=policy,
        via="system",
        details={"intent_digest": row.intent_digest, "verdict": str(Verdict.APPROVE)},
    )

    why = sign_offs.why_not_to_act(Transaction.objects.get(pk=row.pk))

    assert "the contract does not accept a decision of system:policy" in why
