"""What operators settle by hand: two of them where it is grave, and never to hide an effect."""

from __future__ import annotations

import pytest
from django.db.models.functions import Now

from approvals.desk import policies
from approvals.desk.inbox import inbox
from ledger import contracts, execution
from ledger.contracts import NothingHappened
from ledger.errors import InvalidRequest, NotPossible
from ledger.events import chains
from ledger.models import Transaction
from ledger.proof.audit import verification
from ledger.proof.audit.verification import verify
from ledger.states import State
from ledger.transactions import coordinator
from ledger.workers import sweeper

pytestmark = pytest.mark.django_db(transaction=True)
ACME = frozenset({"acme"})


def after(row: Transaction) -> Transaction:
    return Transaction.objects.get(pk=row.pk)


def kinds(row: Transaction) -> list[str]:
    return [event.kind for event in row.events.order_by("seq")]


def say(row: Transaction, outcome: str, person, **more: str) -> Transaction:
    return coordinator.resolve(
        row.pk, outcome=outcome, by=person, via="web", reason="I looked.", **more
    )


def fails(error: Exception):
    def raise_it() -> None:
        raise error

    return raise_it


@pytest.fixture
def in_doubt(approved, the_world):
    def make(tool: str = "launch", **arguments) -> Transaction:
        the_world.before = [fails(ConnectionError("cut"))]
        row = approved(tool, **(arguments or {"rocket": "r1"}))
        execution.commit(row.pk)
        return after(row)

    return make


# --- two operators ---------------------------------------------------------------------------


def test_one_operators_word_on_something_irreversible_changes_nothing(in_doubt, bob):
    row = in_doubt()

    proposed = say(row, "committed", bob, receipt="L-1")
    again = say(row, "committed", bob, receipt="L-1")

    assert proposed.state == again.state == State.IN_DOUBT
    assert proposed.settlement["receipt"] == "L-1"
    assert kinds(row)[-2:] == ["fell_in_doubt", "settlement_proposed"]
    assert policies.settling(again).proposed == "committed, receipt L-1"


def test_who_proposed_an_outcome_is_offered_only_to_take_it_back(in_doubt, bob, dora):
    row = say(in_doubt(), "committed", bob, receipt="L-1")

    own = policies.settling(row, str(bob))
    others = policies.settling(row, str(dora))

    assert (own.is_own, [outcome for outcome, _ in own.outcomes]) == (True, ["decline"])
    assert not others.is_own
    assert {"committed", "decline"} <= {outcome for outcome, _ in others.outcomes}


def test_the_second_operator_says_the_same_and_both_stand_in_the_log(in_doubt, bob, dora):
    row = in_doubt()
    say(row, "committed", bob, receipt="L-1")

    settled = say(row, "committed", dora, receipt="L-1")

    event = row.events.order_by("seq").last()
    assert (settled.state, settled.receipt, settled.settlement) == ("committed", "L-1", None)
    assert (event.kind, event.principal) == ("committed", "user:dora")
    assert f'"first_word_by":"{bob}"' in event.details
    verify()


@pytest.mark.parametrize("said", [("committed", "L-2"), ("nothing_happened", "")])
def test_a_second_operator_who_says_something_else_is_told_what_the_first_said(
    in_doubt, bob, dora, said
):
    row = in_doubt()
    say(row, "committed", bob, receipt="L-1")

    with pytest.raises(NotPossible, match=r"Bob Tanaka has proposed .* committed, receipt L-1"):
        say(row, said[0], dora, receipt=said[1])

    assert after(row).state == State.IN_DOUBT


def test_a_proposal_is_declined_and_another_one_made(in_doubt, bob, dora):
    row = in_doubt()
    say(row, "committed", bob, receipt="L-1")

    say(row, "decline", dora)
    say(row, "nothing_happened", dora)
    say(row, "nothing_happened", bob)

    assert after(row).state == State.ROLLING_BACK
    assert kinds(row)[-4:] == [
        "settlement_proposed",
        "settlement_declined",
        "settlement_proposed",
        "disproved",
    ]


@pytest.mark.parametrize(("amount", "takes_two"), [("999.99", False), ("1000.00", True)])
def test_a_dear_compensation_takes_two_operators(approved, the_world, bob, dora, amount, takes_two):
    row = approved("pay", amount=amount)
    execution.commit(row.pk)
    said = {"via": "web", "reason": "Wrong customer."}

    first = coordinator.compensate(row.pk, by=bob, **said)

    assert (first.state == State.COMMITTED) is takes_two
    if takes_two:
        assert list(inbox.needs_somebody(ACME)) == [row]
        coordinator.compensate(row.pk, by=dora, **said)
    assert after(row).state == State.COMPENSATING


def test_the_world_answers_before_the_second_operator_does(in_doubt, bob, dora, the_world):
    the_world.after = []
    row = in_doubt("pay", amount="5000.00")
    say(row, "nothing_happened", bob)

    execution.commit(row.pk)

    assert after(row).state == State.COMMITTED
    assert after(row).settlement is None
    with pytest.raises(NotPossible):
        say(row, "nothing_happened", dora)


def test_a_first_word_that_was_rewritten_in_the_row_is_not_confirmed(in_doubt, bob, dora):
    row = say(in_doubt(), "committed", bob, receipt="L-1")
    Transaction.objects.filter(pk=row.pk).update(settlement={**row.settlement, "receipt": "L-2"})

    with pytest.raises(NotPossible, match="does not stand in the sealed log"):
        say(row, "committed", dora, receipt="L-2")

    assert after(row).state == State.IN_DOUBT


def test_a_first_word_that_has_counted_is_not_used_for_something_else(in_doubt, bob, dora):
    row = say(in_doubt("pay", amount="5000.00"), "committed", bob, receipt="L-1")
    first = row.settlement
    say(row, "committed", dora, receipt="L-1")
    forged = {**first, "outcome": "compensate", "receipt": ""}
    Transaction.objects.filter(pk=row.pk).update(settlement=forged)

    with pytest.raises(NotPossible, match="does not stand in the sealed log"):
        coordinator.compensate(row.pk, by=dora, via="web", reason="Wrong customer.")

    assert after(row).state == State.COMMITTED


def test_a_first_word_does_not_outlive_another_run(in_doubt, bob, dora, the_world):
    row = say(in_doubt("pay", amount="5000.00"), "nothing_happened", bob)
    say(row, "retry", dora)

    assert after(row).settlement is None
    say(row, "nothing_happened", dora)
    assert after(row).state == State.IN_DOUBT
    verify()


def test_in_the_proof_as_well_a_word_from_before_another_run_confirms_nothing(in_doubt, bob, dora):
    row = say(in_doubt("pay", amount="5000.00"), "nothing_happened", bob)
    say(row, "retry", dora)
    said = {"first_word_by": str(bob), "first_word": "I looked.", "outcome": "nothing_happened"}
    chains.append_event(
        row.pk,
        transaction_id=row.pk,
        tenant=row.tenant,
        kind="disproved",
        by=dora,
        via="admin",
        to_state="rolling_back",
        details={**said, "sets": {}},
    )
    Transaction.objects.filter(pk=row.pk).update(state="rolling_back")

    with pytest.raises(verification.Broken, match="without the word of another operator"):
        verify()


# --- tools that are not deployed everywhere ----------------------------------------------------


def test_a_worker_leaves_alone_what_it_has_no_tool_for(approved, the_world, monkeypatch):
    """A rolling upgrade: the old worker hears of the new tool's work."""
    row = approved()

    with monkeypatch.context() as old_worker:
        old_worker.delitem(contracts.tools, "pay")
        execution.commit(row.pk)
        assert (after(row).state, after(row).attempts) == ("approved", 0)
        assert list(inbox.needs_somebody(ACME)) == [row]
    execution.commit(row.pk)

    assert after(row).state == State.COMMITTED
    assert kinds(row) == ["prepared", "approved", "claimed", "committed"]


def test_the_sweeper_rings_now_and_then_for_what_others_may_do(approved, monkeypatch):
    row = approved()
    Transaction.objects.filter(pk=row.pk).update(decided_at=Now() - 5 * sweeper.GRACE)
    monkeypatch.delitem(contracts.tools, "pay")
    rung: list[tuple[str, object]] = []
    monkeypatch.setattr(sweeper, "enqueue", lambda *job: rung.append(job) or True)
    one = sweeper.Sweeper()

    for _ in range(5):
        one.sweep()

    assert rung.count(("commit", str(row.pk))) == 1


def test_what_a_removed_tool_held_is_let_go_of_by_hand(a_payment, alice, bob, monkeypatch):
    row = a_payment()
    coordinator.reject(row.pk, digest=row.intent_digest, by=alice, via="web", reason="no")
    with pytest.raises(NotPossible, match="it is tried again"):
        say(row, "let_go", bob)

    monkeypatch.delitem(contracts.tools, "pay")
    execution.roll_back(row.pk)
    with pytest.raises(InvalidRequest, match="Say how you know"):
        coordinator.resolve(row.pk, outcome="let_go", by=bob, via="web", reason=" ")
    say(row, "let_go", bob)

    event = row.events.order_by("seq").last()
    assert (after(row).state, event.kind, event.reason) == (
        "aborted",
        "let_go_by_hand",
        "I looked.",
    )
    verify()


def test_a_stuck_rollback_of_what_is_known_to_have_failed_is_let_go_of(approved, the_world, bob):
    the_world.before = [fails(NothingHappened("Card expired."))]
    row = approved()
    execution.commit(row.pk)
    for _ in range(3):
        the_world.rollback_trouble = [ConnectionError("down")]
        execution.roll_back(row.pk)
        Transaction.objects.filter(pk=row.pk).update(next_attempt_at=Now())

    say(row, "let_go", bob)

    assert (after(row).state, kinds(row)[-1]) == ("failed", "failure_let_go_by_hand")


def test_nothing_that_may_have_happened_is_let_go_of(approved, bob, monkeypatch):
    """A row that its events do not clear, however it came to stand there."""
    row = approved()
    execution.claim(row.pk)
    Transaction.objects.filter(pk=row.pk).update(state=State.ROLLING_BACK, lease_expires_at=None)
    monkeypatch.delitem(contracts.tools, "pay")

    with pytest.raises(NotPossible, match="do not prove"):
        say(row, "let_go", bob)

    assert after(row).state == State.ROLLING_BACK
    assert policies.settling(after(row)).outcomes == []


def test_what_is_signed_off_and_not_begun_can_be_withdrawn(approved, bob, the_world):
    row = approved()

    say(row, "withdraw", bob)
    execution.commit(row.pk)
    execution.roll_back(row.pk)

    assert (after(row).state, after(row).ending) == ("aborted", "withdrawn")
    assert (the_world.effects, the_world.holds) == ({}, set())
