"""Orders of operators: how one takes effect, whose word it takes, and what has to be signed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from django.conf import settings
from django.db.models import Q
from django.db.transaction import atomic

from ledger import seals, states
from ledger.agents import sealed_keepers
from ledger.errors import NotAllowed, NotPossible, Sentence
from ledger.foundation.postgres import database_now
from ledger.models import Transaction
from ledger.principals import Principal, Surface
from ledger.sign_off import passkeys
from ledger.sign_off.rules import Strength
from ledger.states import Move, Outcome, State
from ledger.transactions import sign_offs, votes
from ledger.transactions.eligibility import IS_SIGNED, check_assertion
from ledger.transactions.transitions import ALWAYS, advance


def needs_second_operator(row: Transaction) -> bool:
    """True if it takes two operators, as it took two people or because it is grave or large."""
    is_large = row.amount is not None and row.amount >= settings.SECOND_OPERATOR_FROM
    return row.quorum > 1 or is_large or sign_offs.is_grave(row)


@dataclass(slots=True)
class Order:
    """One operator's order, and how it takes effect."""

    outcome: Outcome
    receipt: str
    by: Principal
    via: Surface
    reason: str
    assertion: Mapping[str, str] | None

    def settle(
        self,
        row: Transaction,
        step: Move[State],
        *,
        only_if: Q | None = None,
        details: dict[str, Any] | None = None,
        **changes: Any,
    ) -> None:
        """Take the step, or propose it where another operator must confirm."""
        wanted = Q() if only_if is None else only_if
        before = row.settlement
        with atomic():  # none of the operator's keys ends meanwhile
            details = (details or {}) | self._signed(row)
            if needs_second_operator(row):
                if before is None or not self._is_confirmed(row, before):
                    self._propose(row, step, wanted, details)
                    return
                wanted &= Q(settlement=before)
                details |= {"first_word_by": before["by"]}
            self.take(row, step, only_if=wanted, details=details, settlement=None, **changes)

    def _signed(self, row: Transaction) -> dict[str, Any]:
        """Members that the event has of what the operator signed. Raises ``NotAllowed``."""
        links = sign_offs.links_of(row.pk)
        if self.assertion is None:
            if votes.asked_by(links).strength == Strength.PASSKEY:
                raise NotAllowed(IS_SIGNED, hint=Sentence("Nothing was settled."))
            return {}
        says = {
            passkeys.ASSERTION: passkeys.checked(self.assertion),
            "intent_digest": row.intent_digest,
            "verdict": str(self.outcome),
            **({"receipt": self.receipt} if self.receipt else {}),
        }
        check_assertion(links, database_now(), self.by, says)
        return says

    def take(
        self, row: Transaction, step: Move[State], *, only_if: Q = ALWAYS, **columns: Any
    ) -> None:
        not_own = ~Q(proposed_by=str(self.by))
        details = {**columns.pop("details", {}), **sealed_keepers(row, self.by)}
        advance(
            row.pk,
            step,
            by=self.by,
            via=self.via,
            reason=self.reason,
            only_if=not_own & only_if,
            details=details,
            **columns,
        )

    def _is_confirmed(self, row: Transaction, before: dict[str, str]) -> bool:
        """Another operator proposed the same. Raises ``NotPossible`` for another proposal."""
        if (before["outcome"], before["receipt"]) != (self.outcome, self.receipt):
            raise NotPossible(
                Sentence(
                    "{name} has proposed something else: {proposal}.",
                    name=before["by_name"],
                    proposal=described_settlement(before),
                ),
                snapshot=row,
                hint=Sentence("Order the same to confirm it, or decline it first."),
            )
        return before["by"] != str(self.by) and self._is_sealed(row, before)

    def _is_sealed(self, row: Transaction, before: dict[str, str]) -> bool:
        """Check the proposal against its sealed event: others can update the row."""
        links = sign_offs.links_of(row.pk)
        proposals = [link for link in links if link.kind == states.SETTLEMENT_PROPOSED.kind]
        sealed = seals.sealed_outcome(link.says for link in links)["settlement"]
        if (
            sealed != seals.outcome_text("settlement", before)
            or not proposals
            or proposals[-1].principal != before["by"]
        ):
            raise NotPossible(
                Sentence(
                    "What was proposed does not stand in the sealed log: the row was changed."
                ),
                snapshot=row,
                hint=Sentence("Have the ledger verified: manage.py verify_ledger."),
            )
        return True

    def _propose(
        self, row: Transaction, step: Move[State], only_if: Q, signed: Mapping[str, Any]
    ) -> None:
        if row.settlement is not None:
            return  # proposed already; it waits for another operator
        proposal = {
            "outcome": self.outcome,
            "receipt": self.receipt,
            "reason": self.reason,
            "by": str(self.by),
            "by_name": self.by.display_name,
        }
        self.take(
            row,
            replace(states.SETTLEMENT_PROPOSED, sources=step.sources),
            only_if=only_if & Q(settlement__isnull=True),
            details={**signed, "outcome": self.outcome, "receipt": self.receipt},
            settlement=proposal,
        )


def described_settlement(proposal: dict[str, str]) -> str:
    """``nothing happened`` or ``committed, receipt re_1``."""
    outcome = Outcome(proposal["outcome"]).label
    if not proposal["receipt"]:
        return outcome
    return Sentence("{outcome}, receipt {receipt}", outcome=outcome, receipt=proposal["receipt"])
