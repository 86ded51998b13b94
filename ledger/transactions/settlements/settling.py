"""Settlements by operators: doubt, late receipts, work no worker can do, compensations.

A consequential settlement takes two operators: the first proposes, which is sealed as an event;
another confirms by ordering the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from django.db.models import Q

from ledger import seals, states
from ledger.errors import InvalidRequest, NotFound, NotPossible, Sentence
from ledger.events.brakes import refuse_stopped
from ledger.models import Transaction
from ledger.principals import Principal, Surface
from ledger.states import Outcome
from ledger.tools import deployed_tool_of
from ledger.transactions.settlements.by_hand import OUTCOMES
from ledger.transactions.settlements.orders import Order
from ledger.transactions.transitions import FRESH, check_reason

RECEIPT_MAX = 500  # characters


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
    Where people sign with a passkey, operators do as well what ``SIGNED`` has: ``assertion``.
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


def _row(transaction_id: UUID, by: Principal) -> Transaction:
    row = Transaction.objects.filter(pk=transaction_id).first()
    if row is None:
        raise NotFound()
    return row
