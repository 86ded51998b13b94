"""The tables of the ledger. Read them anywhere; write them through the verbs."""

from __future__ import annotations

from uuid import UUID

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now
from uuid_utils.compat import uuid7

from ledger import intents
from ledger.models.agents import Agent, AgentToken, Scope, Tenant
from ledger.models.log import Checkpoint, Cosignature, Tile
from ledger.models.querysets import HOLDS_ITS_KEY, TransactionQuerySet
from ledger.states import (
    AT_WORK,
    FINAL,
    LEDGER_STATUS,
    Ending,
    LedgerStatus,
    State,
)

__all__ = [
    "HOLDS_ITS_KEY",
    "NEEDS_A_LOOK",
    "Agent",
    "AgentToken",
    "Checkpoint",
    "Cosignature",
    "Decision",
    "Ending",
    "Event",
    "IdempotencyKey",
    "Reading",
    "Scope",
    "Tenant",
    "Tile",
    "Transaction",
    "TransactionQuerySet",
    "Verdict",
    "new_id",
]


def new_id() -> UUID:
    """Time-ordered (RFC 9562, version 7), so that newer rows have larger ids."""
    return uuid7()


def id_or_none(text: object) -> UUID | None:
    """The id that a text of a client names; ``None`` for text that is no UUID."""
    try:
        return UUID(str(text))
    except ValueError:
        return None


# Settled or not, an operator has to look: a late receipt, another operator's proposal.
NEEDS_A_LOOK = ~Q(late_receipt="") | Q(settlement__isnull=False)


class Transaction(models.Model):
    """One proposed use of one tool.

    Read it anywhere; write ``state`` nowhere but in ``ledger.transactions.transitions`` (and, for
    its first value, ``ledger.transactions.entries``).
    """

    id = models.UUIDField(primary_key=True, default=new_id)
    tenant = models.CharField(max_length=63)
    state = models.CharField(max_length=20, choices=State)

    # Who asks, and for which run.
    proposed_by = models.CharField(max_length=150)
    proposed_by_name = models.CharField(max_length=200)
    stated_reason = models.TextField(blank=True)
    run_id = models.CharField(max_length=200, blank=True)
    step_id = models.CharField(max_length=200, blank=True)
    trace_id = models.CharField(max_length=32, blank=True)
    traceparent = models.CharField(max_length=55, blank=True)

    # For what: the contract as it stood, the request, and what planning made of it.
    tool = models.CharField(max_length=100)
    owner_service = models.CharField(max_length=100)
    risk_level = models.CharField(max_length=10)
    required_approver = models.CharField(max_length=10)
    consequence_level = models.CharField(max_length=15)
    quorum = models.PositiveSmallIntegerField(default=1)
    payload = models.JSONField(help_text="The arguments as proposed.")
    arguments = models.JSONField(help_text="The arguments as validated and planned.")
    input_hash = models.CharField(max_length=64)
    operation_key = models.CharField(max_length=500)
    action_summary = models.TextField()
    warnings = models.JSONField(default=list)
    amount = models.DecimalField(max_digits=20, decimal_places=6, null=True)
    currency = models.CharField(max_length=3, blank=True)
    held = models.JSONField(default=dict, help_text="What plan() holds until then.")
    hold_expires_at = models.DateTimeField(null=True)
    intent_digest = models.CharField(max_length=64)

    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    decided_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    retain_until = models.DateTimeField(help_text="From then on the content is erased.")
    legal_hold_at = models.DateTimeField(null=True, help_text="An operator keeps the content.")
    content_erased_at = models.DateTimeField(null=True)

    # At work. The fencing token is raised at every claim; a write with an older one is void.
    fencing_token = models.PositiveIntegerField(default=0)
    lease_expires_at = models.DateTimeField(null=True)
    attempts = models.PositiveSmallIntegerField(default=0)
    next_attempt_at = models.DateTimeField(null=True)

    # What came of it.
    receipt = models.CharField(max_length=500, blank=True)
    receipt_url = models.CharField(max_length=2000, blank=True)
    result = models.JSONField(null=True)
    error = models.TextField(blank=True)
    error_detail = models.TextField(
        blank=True,
        default="",
        db_default="",
        help_text="For operators only: it may hold secrets of a provider.",
    )
    late_receipt = models.CharField(
        max_length=500,
        blank=True,
        default="",
        db_default="",
        help_text="Came after the row was settled; nobody has looked.",
    )
    settlement = models.JSONField(
        null=True, help_text="What one operator proposed; it waits for another."
    )
    ending = models.CharField(max_length=20, choices=Ending, blank=True)
    ending_reason = models.TextField(blank=True)
    compensation_receipt = models.CharField(max_length=500, blank=True)

    objects = TransactionQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="ledger_tx_state_is_on_the_map", condition=Q(state__in=State.values)
            ),
            models.CheckConstraint(
                name="ledger_tx_no_commit_without_receipt",
                condition=~Q(state=State.COMMITTED) | ~Q(receipt=""),
            ),
            models.CheckConstraint(
                name="ledger_tx_amount_has_currency",
                condition=Q(amount=None, currency="") | (Q(amount__gte=0) & ~Q(currency="")),
            ),
            models.CheckConstraint(
                name="ledger_tx_expires_after_creation",
                condition=Q(expires_at__gte=F("created_at")),
            ),
            models.UniqueConstraint(
                name="ledger_tx_one_per_operation",
                fields=["tenant", "operation_key"],
                condition=HOLDS_ITS_KEY,
            ),
        ]
        indexes = [
            # What the sweeper asks once a second.
            models.Index(
                name="ledger_tx_due", fields=["expires_at"], condition=Q(state=State.PREPARED)
            ),
            models.Index(
                name="ledger_tx_work",
                fields=["state", "next_attempt_at"],
                condition=Q(state__in=sorted([State.APPROVED, State.IN_DOUBT, *AT_WORK])),
            ),
            # The desk's list, a tenant's history (newest first by id), an agent's own.
            models.Index(
                name="ledger_tx_open",
                fields=["tenant", "expires_at"],
                condition=~Q(state__in=sorted(FINAL)) | NEEDS_A_LOOK,
            ),
            # Asked before an operation is begun again.
            models.Index(
                name="ledger_tx_late",
                fields=["tenant", "operation_key"],
                condition=~Q(late_receipt=""),
            ),
            models.Index(name="ledger_tx_history", fields=["tenant", "-id"]),
            models.Index(name="ledger_tx_proposer", fields=["proposed_by", "-id"]),
            # What operators filter by; what is open is few, and has an index above.
            models.Index(
                name="ledger_tx_ended",
                fields=["state", "-id"],
                condition=Q(state__in=sorted(FINAL)),
            ),
            models.Index(name="ledger_tx_tool", fields=["tool", "-id"]),
            # What the sweeper erases.
            models.Index(
                name="ledger_tx_retention",
                fields=["retain_until"],
                condition=Q(state__in=sorted(FINAL), content_erased_at=None, legal_hold_at=None),
            ),
            # What operators hold back; few rows at any time.
            models.Index(
                name="ledger_tx_legal_hold",
                fields=["tenant", "-id"],
                condition=Q(legal_hold_at__isnull=False),
            ),
            # What operators search by.
            models.Index(name="ledger_tx_receipt", fields=["receipt"], condition=~Q(receipt="")),
            models.Index(name="ledger_tx_trace", fields=["trace_id"], condition=~Q(trace_id="")),
            models.Index(name="ledger_tx_run", fields=["run_id"], condition=~Q(run_id="")),
        ]

    def __str__(self) -> str:
        return f"{self.headline[:80]} ({self.short_id})"

    @property
    def short_id(self) -> str:
        """The last eight digits: the first ones are the time and alike in neighbours."""
        return self.id.hex[-8:]

    @property
    def ledger_status(self) -> LedgerStatus:
        return LEDGER_STATUS[State(self.state)]

    @property
    def is_final(self) -> bool:
        return self.state in FINAL

    @property
    def financial_impact(self) -> dict[str, str] | None:
        return intents.financial_impact(self.amount, self.currency)

    @property
    def headline(self) -> str:
        """What people read as its title: the plan's summary, or when that was erased."""
        if self.content_erased_at is None:
            return self.action_summary
        return f"{self.tool}: content erased on {self.content_erased_at:%Y-%m-%d}"

    @property
    def is_untouched(self) -> bool:
        """Whether the row still is what its digest was made of."""
        return intents.digest_of(intents.intent_of(self)) == self.intent_digest


class Event(models.Model):
    """One thing that happened to one subject: a transaction, or a task. Appended, never changed.

    The database seals each row (``ledger/sql/events.sql``): it gives ``seq``, ``at``,
    ``from_state`` and the hashes; ``ledger.audit.verification`` proves them again on its own.
    """

    id = models.BigAutoField(primary_key=True)
    # Whose chain this is. Upper rooms keep the history of what is theirs in the same log.
    subject = models.UUIDField()
    transaction = models.ForeignKey(
        Transaction, on_delete=models.PROTECT, related_name="events", null=True
    )
    tenant = models.CharField(max_length=63)
    seq = models.PositiveIntegerField(default=0)
    kind = models.CharField(max_length=30)
    from_state = models.CharField(max_length=20, blank=True)
    to_state = models.CharField(max_length=20)
    principal = models.CharField(max_length=150)
    principal_name = models.CharField(max_length=200)
    via = models.CharField(max_length=20)
    # Erased with the content of the subject; the hash is over its digest, which stays.
    reason = models.TextField(blank=True)
    reason_digest = models.CharField(max_length=64, blank=True)
    details = models.TextField(default="{}", help_text="Canonical JSON; it is never erased.")
    at = models.DateTimeField(db_default=Now())
    previous_hash = models.CharField(max_length=64, blank=True)
    hash = models.CharField(max_length=64, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["subject", "seq"], name="ledger_event_one_place_in_chain"
            ),
            models.CheckConstraint(
                name="ledger_event_transaction_is_subject",
                condition=Q(transaction=None) | Q(transaction=F("subject")),
            ),
        ]
        indexes = [
            # What the live watcher asks once a second.
            models.Index(name="ledger_event_recent", fields=["at"]),
            # "Who changed what": the changes of accounts, newest first.
            models.Index(name="ledger_event_changes", fields=["-id"], condition=Q(to_state="")),
        ]

    def __str__(self) -> str:
        return f"{self.kind} by {self.principal}"


class Verdict(models.TextChoices):
    APPROVE = "approve", "approved"
    REJECT = "reject", "rejected"


class Decision(models.Model):
    """One vote of one principal on one intent digest."""

    transaction = models.ForeignKey(Transaction, on_delete=models.PROTECT, related_name="decisions")
    principal = models.CharField(max_length=150)
    principal_name = models.CharField(max_length=200)
    verdict = models.CharField(max_length=10, choices=Verdict)
    intent_digest = models.CharField(max_length=64)
    via = models.CharField(max_length=20)
    reason = models.TextField(blank=True)
    at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["transaction", "principal"], name="ledger_decision_one_vote_each"
            )
        ]

    def __str__(self) -> str:
        return f"{self.verdict} by {self.principal} via {self.via}"


class IdempotencyKey(models.Model):
    """One request of one agent, and the answer that it got.

    Without a transaction it is a cancel that came before its prepare: the prepare is refused.
    """

    agent = models.CharField(max_length=150)
    route = models.CharField(max_length=50)
    key = models.CharField(max_length=255)
    payload_hash = models.CharField(max_length=64, blank=True)
    transaction = models.ForeignKey(Transaction, on_delete=models.PROTECT, null=True)
    status = models.PositiveSmallIntegerField(default=201)
    answer = models.TextField(blank=True)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["agent", "route", "key"], name="ledger_key_names_one_request"
            )
        ]

    def __str__(self) -> str:
        return self.key


class Reading(models.Model):
    """One use of a read-only tool."""

    id = models.UUIDField(primary_key=True, default=new_id)
    tenant = models.CharField(max_length=63)
    agent = models.CharField(max_length=150)
    tool = models.CharField(max_length=100)
    arguments = models.JSONField()
    result_hash = models.CharField(max_length=64, blank=True)
    error = models.TextField(blank=True)
    at = models.DateTimeField(db_default=Now())

    class Meta:
        indexes = [models.Index(name="ledger_reading_history", fields=["tenant", "-id"])]

    def __str__(self) -> str:
        return f"{self.tool} by {self.agent}"
