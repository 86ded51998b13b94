"""Settlements by operators: doubt, late receipts, work no worker can do, compensations.

A consequential settlement takes two operators: the first proposes, which is sealed as an event;
another confirms by ordering the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from uuid import UUID

from django.db.models import Q
from django.db.models.functions import Now

from ledger import seals, states
from ledger.errors import InvalidRequest, NotFound, NotPossible, Sentence
from ledger.events.brakes import refuse_stopped
from ledger.models import Ending, Transaction
from ledger.principals import Principal, Surface
from ledger.states import EventKind, Outcome, State
from ledger.tools import deployed_tool_of, tool_of
from ledger.transactions.orders import Order
from ledger.transactions.transitions import FRESH, REVOKED, check_reason

RECEIPT_MAX = 500  # characters
STUCK_AFTER = 3  # attempts
NO_EFFECT_BEFORE = {EventKind.FAILED, EventKind.DISPROVED}
EXECUTION = {
    EventKind.CLAIMED,
    EventKind.RETRIED,
    EventKind.COMMITTED,
    EventKind.RECEIPT_KEPT,
    *NO_EFFECT_BEFORE,
}


def resolve(
    transaction_id: UUID,
    *,
    outcome: Outcome,
    by: Principal,
    via: Surface,
    reason: str,
    receipt: str = "",
    assertion: Mapping[str, str] | None = None,
) -> Transaction:
    """Settle what no worker can, as an operator orders. ``outcome`` is one of

    - of what is in doubt: ``committed`` (needs the receipt), ``nothing_happened``, or ``retry``
      (only for retry-safe tools);
    - of a receipt that came late: ``keep_receipt`` (it did happen), ``not_ours`` (it is somebody
      else's) or ``dealt_with`` (it did happen too, and was compensated outside);
    - ``withdraw`` what was signed off and nobody has begun; ``let_go`` by hand of what nobody can
      roll back;
    - ``decline`` what another operator has proposed, or take back one's own proposal.

    Where two operators are needed, the first call only proposes: see ``needs_second_operator``.
    Where people sign with a passkey, so do operators: ``assertion``.
    Raises ``InvalidRequest, NotAllowed, NotPossible, NotFound``.
    """
    if not reason.strip():
        raise InvalidRequest(Sentence("Say how you know: the reason is kept in the audit log."))
    check_reason(reason)
    seals.refuse_unsafe_text(receipt, "receipt")
    verb = OUTCOMES.get(outcome)
    if verb is None:
        raise InvalidRequest(Sentence("{text} is not an outcome.", text=f"{outcome!r:.40}"))
    row = _row(transaction_id, by)
    verb(row, Order(outcome, receipt.strip()[:RECEIPT_MAX], by, via, reason, assertion))
    return Transaction.objects.get(pk=transaction_id)


def compensate(
    transaction_id: UUID,
    *,
    by: Principal,
    via: Surface,
    reason: str,
    assertion: Mapping[str, str] | None = None,
) -> Transaction:
    """Compensate a committed transaction by the tool's own compensation.

    Where two operators are needed, the first call only proposes.
    """
    if not reason.strip():
        raise InvalidRequest(Sentence("A compensation needs a reason."))
    check_reason(reason)
    row = _row(transaction_id, by)
    refuse_stopped(row.tenant, row.proposed_by, row.tool, row)
    if not deployed_tool_of(row).has("compensate"):
        raise NotPossible(Sentence("{tool} declares no compensation.", tool=row.tool), snapshot=row)
    if row.content_erased_at is not None:
        raise NotPossible(
            Sentence(
                "Its content was erased on {day} under retention: the tool cannot be told what to "
                "make up for.",
                day=f"{row.content_erased_at:%Y-%m-%d}",
            ),
            snapshot=row,
        )
    order = Order(Outcome.COMPENSATE, "", by, via, reason, assertion)
    order.settle(
        row,
        states.COMPENSATE,
        only_if=Q(content_erased_at=None),
        error="",
        error_detail="",
        work=FRESH,
    )
    return Transaction.objects.get(pk=transaction_id)


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


def _row(transaction_id: UUID, by: Principal) -> Transaction:
    row = Transaction.objects.filter(pk=transaction_id).first()
    if row is None:
        raise NotFound()
    return row
