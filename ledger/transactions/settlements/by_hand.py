"""Outcomes that operators state: what each does to a transaction, and when it is possible."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from django.db.models import Q
from django.db.models.functions import Now

from ledger import states
from ledger.errors import InvalidRequest, NotPossible, Sentence
from ledger.models import Ending, Transaction
from ledger.states import EventKind, Outcome, State
from ledger.tools import deployed_tool_of, tool_of
from ledger.transactions.settlements.orders import Order
from ledger.transactions.transitions import FRESH, REVOKED

STUCK_AFTER = 3  # attempts
NO_EFFECT_BEFORE = {EventKind.FAILED, EventKind.DISPROVED}
EXECUTION = {
    EventKind.CLAIMED,
    EventKind.RETRIED,
    EventKind.COMMITTED,
    EventKind.RECEIPT_KEPT,
    *NO_EFFECT_BEFORE,
}


def open_outcomes(row: Transaction) -> list[Outcome]:
    """The outcomes that ``resolve`` accepts for this row as it is now."""
    tool = tool_of(row)
    outcomes: list[Outcome] = []
    if row.state == State.IN_DOUBT:
        outcomes += [Outcome.COMMITTED, Outcome.NOTHING_HAPPENED]
        outcomes += [Outcome.RETRY] if tool is not None and tool.contract.retry_safe else []
    if row.late_receipt:
        outcomes += [Outcome.KEEP_RECEIPT, Outcome.NOT_OURS, Outcome.DEALT_WITH]
    if row.state == State.APPROVED:
        outcomes.append(Outcome.WITHDRAW)
    if row.state == State.ROLLING_BACK and _nobody_rolls_back(row) and had_no_effect(row):
        outcomes.append(Outcome.LET_GO)
    return [*outcomes, Outcome.DECLINE] if row.settlement else outcomes


def _nobody_rolls_back(row: Transaction) -> bool:
    return tool_of(row) is None or row.attempts >= STUCK_AFTER


def had_no_effect(row: Transaction) -> bool:
    """True if its events prove that nothing was carried out, or that it is known to have failed."""
    if row.receipt or row.late_receipt:
        return False
    kinds = row.events.filter(kind__in=EXECUTION).order_by("seq").values_list("kind", flat=True)
    last = list(kinds)[-1:]
    return not last or last[0] in NO_EFFECT_BEFORE


# --- in doubt -------------------------------------------------------------------------------


def _committed(row: Transaction, order: Order) -> None:
    if not order.receipt:
        raise InvalidRequest(Sentence("Without a receipt nothing counts as committed."))
    order.settle(
        row,
        states.COMMIT,
        only_if=Q(state=State.IN_DOUBT),
        details={"receipt": order.receipt},
        receipt=order.receipt,
        ended_at=Now(),
        work=REVOKED,
    )


def _nothing_happened(row: Transaction, order: Order) -> None:
    order.settle(
        row,
        states.DISPROVE,
        work=replace(REVOKED, attempts=0),
        ending=Ending.FAILED,
        ending_reason=order.reason,
    )


def _retry(row: Transaction, order: Order) -> None:
    """Let a worker run it again with the same operation key, which makes both runs one."""
    if not deployed_tool_of(row).contract.retry_safe:
        raise NotPossible(
            Sentence(
                "{tool} is not retry-safe: running it again could do it twice.", tool=row.tool
            ),
            snapshot=row,
        )
    # A proposal from before this run says nothing about the outcome of the run.
    order.take(row, states.ORDER_RETRY, attempts=0, next_attempt_at=Now(), settlement=None)


# --- a receipt that came late ---------------------------------------------------------------


def _late(row: Transaction) -> Q:
    if not row.late_receipt:
        raise NotPossible(Sentence("No late receipt waits here."), snapshot=row)
    return Q(late_receipt=row.late_receipt)


def _keep_receipt(row: Transaction, order: Order) -> None:
    """It did happen: the row becomes COMMITTED after all."""
    only_if, receipt = _late(row), row.late_receipt
    others = Transaction.objects.holding(row.tenant, row.operation_key).exclude(pk=row.pk)
    if other := others.first():
        raise NotPossible(
            Sentence(
                "Transaction {id} has this operation by now and is {state}.",
                id=other.pk,
                state=other.get_state_display(),
            ),
            snapshot=row,
            hint=Sentence(
                "Reject or withdraw that one first; or say that this one was dealt with outside."
            ),
        )
    order.receipt = receipt
    order.settle(
        row,
        states.KEEP_RECEIPT,
        only_if=only_if,
        details={"receipt": receipt},
        receipt=receipt,
        late_receipt="",
        error="",
        ending="",
        ending_reason="",
        ended_at=Now(),
        work=REVOKED,
    )


def _settle_late(row: Transaction, order: Order) -> None:
    only_if, receipt = _late(row), row.late_receipt
    order.receipt = receipt
    details = {"receipt": receipt, "outcome": order.outcome}
    order.settle(
        row, states.LATE_RECEIPT_SETTLED, only_if=only_if, details=details, late_receipt=""
    )


# --- work that no worker can do -------------------------------------------------------------


def _withdraw(row: Transaction, order: Order) -> None:
    """Signed off, and nobody has begun: take it back."""
    order.take(
        row, states.WITHDRAW, ending=Ending.WITHDRAWN, ending_reason=order.reason, work=FRESH
    )


def _let_go(row: Transaction, order: Order) -> None:
    """Settle that what the rollback would have done was done by hand. Never hides an effect."""
    if not _nobody_rolls_back(row):
        raise NotPossible(
            Sentence(
                "The rollback of {tool} was tried {number} times; it is tried again.",
                tool=row.tool,
                number=row.attempts,
            ),
            snapshot=row,
            hint=Sentence(
                "By hand only after {number} attempts, or when the tool is gone.",
                number=STUCK_AFTER,
            ),
        )
    if not had_no_effect(row):
        raise NotPossible(
            Sentence("Its events do not prove that nothing was carried out."),
            snapshot=row,
            hint=Sentence("Settle its receipt first."),
        )
    step = states.LET_GO_FAILED if row.ending == Ending.FAILED else states.LET_GO
    only_if = Q(late_receipt="", receipt="")
    order.take(row, step, only_if=only_if, work=REVOKED, ended_at=Now())


def _decline(row: Transaction, order: Order) -> None:
    order.take(
        row, states.SETTLEMENT_DECLINED, only_if=Q(settlement__isnull=False), settlement=None
    )


OUTCOMES: dict[Outcome, Callable[[Transaction, Order], None]] = {
    Outcome.COMMITTED: _committed,
    Outcome.NOTHING_HAPPENED: _nothing_happened,
    Outcome.RETRY: _retry,
    Outcome.KEEP_RECEIPT: _keep_receipt,
    Outcome.NOT_OURS: _settle_late,
    Outcome.DEALT_WITH: _settle_late,
    Outcome.WITHDRAW: _withdraw,
    Outcome.LET_GO: _let_go,
    Outcome.DECLINE: _decline,
}
