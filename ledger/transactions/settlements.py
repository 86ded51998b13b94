"""What operators settle: doubt, late receipts, work that nobody can do, compensations.

What is consequential takes two of them: the first one's word is a proposal, sealed as an event, and
another one has to say the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import Q
from django.db.models.functions import Now

from ledger import intents, states
from ledger.contracts import tool_named, tools
from ledger.errors import InvalidRequest, NotFound, NotPossible
from ledger.events import seals
from ledger.models import Ending, Transaction
from ledger.principals import Principal, Surface
from ledger.states import EventKind, Move, State
from ledger.transactions import sign_offs
from ledger.transactions.decisions import check_reason
from ledger.transactions.transitions import advance
from ledger.transactions.work_columns import FRESH, REVOKED

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
    outcome: str,
    by: Principal,
    via: Surface,
    reason: str,
    receipt: str = "",
) -> Transaction:
    """Settle on an operator's word what no worker can. ``outcome`` is one of

    - of what is in doubt: ``committed`` (needs the receipt), ``nothing_happened``, or ``retry``
      (only for retry-safe tools);
    - of a receipt that came late: ``keep_receipt`` (it did happen), ``not_ours`` (it is somebody
      else's) or ``dealt_with`` (it did happen too, and was made good outside);
    - ``withdraw`` what was signed off and nobody has begun; ``let_go`` by hand of what nobody can
      roll back;
    - ``decline`` what another operator has proposed, or take back one's own proposal.

    Where two operators are needed, the first call only proposes: see ``needs_a_second``. Raises
    ``InvalidRequest, NotPossible, NotFound``.
    """
    if not reason.strip():
        raise InvalidRequest("Say how you know: the reason is kept in the audit log.")
    check_reason(reason)
    intents.refuse_unsafe_text(receipt, "receipt")
    verb = OUTCOMES.get(outcome)
    if verb is None:
        raise InvalidRequest(f"{outcome!r:.40} is not an outcome.")
    row = _row(transaction_id, by)
    verb(row, _Word(outcome, receipt.strip()[:RECEIPT_MAX], by, via, reason))
    return Transaction.objects.get(pk=transaction_id)


def compensate(transaction_id: UUID, *, by: Principal, via: Surface, reason: str) -> Transaction:
    """Make up for a committed transaction, by the tool's own compensation.

    Where two operators are needed, the first call only proposes.
    """
    if not reason.strip():
        raise InvalidRequest("A compensation needs a reason.")
    check_reason(reason)
    row = _row(transaction_id, by)
    if not tool_named(row.tool).has("compensate"):
        raise NotPossible(f"{row.tool} declares no compensation.", snapshot=row)
    if row.content_erased_at is not None:
        raise NotPossible(
            f"Its content was erased on {row.content_erased_at:%Y-%m-%d} under retention: the "
            "tool cannot be told what to make up for.",
            snapshot=row,
        )
    word = _Word("compensate", "", by, via, reason)
    word.settle(
        row, states.COMPENSATE, only_if=Q(content_erased_at=None), error="", error_detail="",
        work=FRESH,
    )  # fmt: skip
    return Transaction.objects.get(pk=transaction_id)


def needs_a_second(row: Transaction) -> bool:
    """Whether one operator's word is not enough: it cannot be undone, is critical, or is dear."""
    is_dear = row.amount is not None and row.amount >= settings.SECOND_OPERATOR_FROM
    return is_dear or sign_offs.is_grave(row)


def open_outcomes(row: Transaction) -> list[str]:
    """What ``resolve`` may be told of this row, as it is now."""
    tool = tools.get(row.tool)
    found: list[str] = []
    if row.state == State.IN_DOUBT:
        found += ["committed", "nothing_happened"]
        found += ["retry"] if tool is not None and tool.contract.retry_safe else []
    if row.late_receipt:
        found += ["keep_receipt", "not_ours", "dealt_with"]
    if row.state == State.APPROVED:
        found.append("withdraw")
    if row.state == State.ROLLING_BACK and _nobody_rolls_back(row) and had_no_effect(row):
        found.append("let_go")
    return [*found, "decline"] if row.settlement else found


def _nobody_rolls_back(row: Transaction) -> bool:
    return row.tool not in tools or row.attempts >= STUCK_AFTER


def had_no_effect(row: Transaction) -> bool:
    """Whether its events prove that nothing was carried out, or that it is known to have failed."""
    if row.receipt or row.late_receipt:
        return False
    kinds = row.events.filter(kind__in=EXECUTION).order_by("seq").values_list("kind", flat=True)
    last = list(kinds)[-1:]
    return not last or last[0] in NO_EFFECT_BEFORE


class _Word:
    """What one operator says, and how it takes effect."""

    def __init__(
        self, outcome: str, receipt: str, by: Principal, via: Surface, reason: str
    ) -> None:
        self.outcome, self.receipt = outcome, receipt
        self.by, self.via, self.reason = by, via, reason

    def settle(
        self,
        row: Transaction,
        step: Move[State],
        *,
        only_if: Q | None = None,
        details: dict[str, Any] | None = None,
        **changes: Any,
    ) -> None:
        """Take the step, or propose it where another operator has to say the same."""
        wanted = Q() if only_if is None else only_if
        details = details or {}
        before = row.settlement
        if needs_a_second(row):
            if before is None or not self._is_confirmed(row, before):
                self._propose(row, step, wanted)
                return
            wanted &= Q(settlement=before)
            details |= {"first_word_by": before["by"]}
        self.take(row, step, only_if=wanted, details=details, settlement=None, **changes)

    def take(self, row: Transaction, step: Move[State], *, only_if: Q = Q(), **said: Any) -> None:  # noqa: B008
        not_own = ~Q(proposed_by=str(self.by))
        advance(
            row.pk, step, by=self.by, via=self.via, reason=self.reason, only_if=not_own & only_if,
            **said,
        )  # fmt: skip

    def _is_confirmed(self, row: Transaction, before: dict[str, str]) -> bool:
        """Another operator has said the same. Raises ``NotPossible`` if something else was said."""
        if (before["outcome"], before["receipt"]) != (self.outcome, self.receipt):
            raise NotPossible(
                f"{before['by_name']} has proposed something else: {described(before)}.",
                snapshot=row,
                hint="Say the same to confirm it, or decline it first.",
            )
        return before["by"] != str(self.by) and self._stands_in_the_log(row, before)

    def _stands_in_the_log(self, row: Transaction, before: dict[str, str]) -> bool:
        """The row may be updated by others; the event that sealed the first word may not."""
        links = sign_offs.links_of(row.pk)
        proposals = [link for link in links if link.kind == states.SETTLEMENT_PROPOSED.kind]
        sealed = seals.sealed_outcome(link.says for link in links)["settlement"]
        if (
            sealed != seals.outcome_text("settlement", before)
            or not proposals
            or proposals[-1].principal != before["by"]
        ):
            raise NotPossible(
                "What was proposed does not stand in the sealed log: the row was changed.",
                snapshot=row,
                hint="Have the ledger verified: manage.py verify_ledger.",
            )
        return True

    def _propose(self, row: Transaction, step: Move[State], only_if: Q) -> None:
        if row.settlement is not None:
            return  # said already; it waits for another operator
        proposal = {
            "outcome": self.outcome, "receipt": self.receipt, "reason": self.reason,
            "by": str(self.by), "by_name": self.by.display_name,
        }  # fmt: skip
        self.take(
            row,
            replace(states.SETTLEMENT_PROPOSED, sources=step.sources),
            only_if=only_if & Q(settlement__isnull=True),
            details={"outcome": self.outcome, "receipt": self.receipt},
            settlement=proposal,
        )


def described(proposal: dict[str, str]) -> str:
    """``nothing happened`` or ``committed, receipt re_1``."""
    outcome = proposal["outcome"].replace("_", " ")
    return f"{outcome}, receipt {proposal['receipt']}" if proposal["receipt"] else outcome


# --- in doubt -------------------------------------------------------------------------------


def _committed(row: Transaction, word: _Word) -> None:
    if not word.receipt:
        raise InvalidRequest("Without a receipt nothing counts as committed.")
    word.settle(
        row, states.COMMIT, only_if=Q(state=State.IN_DOUBT), details={"receipt": word.receipt},
        receipt=word.receipt, ended_at=Now(), work=REVOKED,
    )  # fmt: skip


def _nothing_happened(row: Transaction, word: _Word) -> None:
    word.settle(
        row,
        states.DISPROVE,
        work=replace(REVOKED, attempts=0),
        ending=Ending.FAILED,
        ending_reason=word.reason,
    )


def _retry(row: Transaction, word: _Word) -> None:
    """Let a worker run it again with the same operation key; the world counts it as one."""
    if not tool_named(row.tool).contract.retry_safe:
        raise NotPossible(
            f"{row.tool} is not retry-safe: running it again could do it twice.", snapshot=row
        )
    # What somebody found out before this run says nothing of what comes of it.
    word.take(row, states.ORDER_RETRY, attempts=0, next_attempt_at=Now(), settlement=None)


# --- a receipt that came late ---------------------------------------------------------------


def _late(row: Transaction) -> Q:
    if not row.late_receipt:
        raise NotPossible("No late receipt waits here.", snapshot=row)
    return Q(late_receipt=row.late_receipt)


def _keep_receipt(row: Transaction, word: _Word) -> None:
    """It did happen: the row becomes COMMITTED after all."""
    only_if, receipt = _late(row), row.late_receipt
    others = Transaction.objects.holding(row.tenant, row.operation_key).exclude(pk=row.pk)
    if other := others.first():
        raise NotPossible(
            f"Transaction {other.pk} has this operation by now and is {other.get_state_display()}.",
            snapshot=row,
            hint="Reject or withdraw that one first; or say that this one was dealt with outside.",
        )
    word.receipt = receipt
    word.settle(
        row, states.KEEP_RECEIPT, only_if=only_if, details={"receipt": receipt}, receipt=receipt,
        late_receipt="", error="", ending="", ending_reason="", ended_at=Now(),
        work=REVOKED,
    )  # fmt: skip


def _settle_late(row: Transaction, word: _Word) -> None:
    only_if, receipt = _late(row), row.late_receipt
    word.receipt = receipt
    details = {"receipt": receipt, "outcome": word.outcome}
    word.settle(row, states.LATE_RECEIPT_SETTLED, only_if=only_if, details=details, late_receipt="")


# --- what nobody can do ---------------------------------------------------------------------


def _withdraw(row: Transaction, word: _Word) -> None:
    """Signed off, and nobody has begun: take it back."""
    word.take(row, states.WITHDRAW, ending=Ending.WITHDRAWN, ending_reason=word.reason, work=FRESH)


def _let_go(row: Transaction, word: _Word) -> None:
    """What the rollback would have done was done by hand. Never hides an effect."""
    if not _nobody_rolls_back(row):
        raise NotPossible(
            f"The rollback of {row.tool} was tried {row.attempts} times; it is tried again.",
            snapshot=row,
            hint=f"By hand only after {STUCK_AFTER} attempts, or when the tool is gone.",
        )
    if not had_no_effect(row):
        raise NotPossible(
            "Its events do not prove that nothing was carried out.",
            snapshot=row,
            hint="Settle its receipt first.",
        )
    step = states.LET_GO_FAILED if row.ending == Ending.FAILED else states.LET_GO
    only_if = Q(late_receipt="", receipt="")
    word.take(row, step, only_if=only_if, work=REVOKED, ended_at=Now())


def _decline(row: Transaction, word: _Word) -> None:
    word.take(row, states.SETTLEMENT_DECLINED, only_if=Q(settlement__isnull=False), settlement=None)


OUTCOMES: dict[str, Callable[[Transaction, _Word], None]] = {
    "committed": _committed,
    "nothing_happened": _nothing_happened,
    "retry": _retry,
    "keep_receipt": _keep_receipt,
    "not_ours": _settle_late,
    "dealt_with": _settle_late,
    "withdraw": _withdraw,
    "let_go": _let_go,
    "decline": _decline,
}


def _row(transaction_id: UUID, by: Principal) -> Transaction:
    row = Transaction.objects.filter(pk=transaction_id).first()
    if row is None:
        raise NotFound()
    return row
