"""Transactions and the queries about them."""

from __future__ import annotations

from typing import Any

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import Exists, F, OuterRef, Q, Value
from django.db.models.expressions import RawSQL
from django.db.models.functions import Coalesce, Now

from ledger import seals
from ledger.contracts import tools
from ledger.models.agents import tenants_with_other_rules
from ledger.models.ids import new_id
from ledger.models.limits import clock_runs, not_stopped
from ledger.models.tools import versions_for_agents
from ledger.principals import Principal
from ledger.states import (
    AT_WORK,
    FINAL,
    LEDGER_STATUS,
    OPEN,
    WITH_EFFECT,
    WITHOUT_EFFECT,
    Ending,
    LedgerStatus,
    State,
)

# A literal: with a parameter a prepared statement could not use the index of late receipts.
_NONE = RawSQL("''", [], models.CharField())
# Which transactions hold their operation key, so that no other may be prepared with it.
HOLDS_ITS_KEY = ~Q(state__in=sorted(WITHOUT_EFFECT))
# An operator has to look: at a late receipt, or at another operator's proposed settlement.
NEEDS_A_LOOK = ~Q(late_receipt="") | Q(settlement__isnull=False)


class TransactionQuerySet(models.QuerySet["Transaction"]):
    def for_tenants(self, tenants: frozenset[str]) -> TransactionQuerySet:
        return self.filter(tenant__in=tenants)

    def proposed_by(self, principal: Principal) -> TransactionQuerySet:
        return self.filter(proposed_by=str(principal))

    def visible_to_agent(
        self, principal: str | RawSQL, tenant: str | RawSQL, sees_all: bool | RawSQL
    ) -> TransactionQuerySet:
        """Rows an agent may read: its own, or all of its tenant. Also over SQL expressions."""
        is_wide = Value(sees_all) if isinstance(sees_all, bool) else sees_all
        return self.filter(Q(proposed_by=principal) | Q(is_wide), tenant=tenant)

    def pending(self) -> TransactionQuerySet:
        """Waiting for sign-off."""
        return self.filter(state=State.PREPARED)

    def with_late_receipt(self) -> TransactionQuerySet:
        """A receipt came after the row was settled, and no operator has looked at it yet."""
        return self.exclude(late_receipt=_NONE)

    def deployed_here(self) -> TransactionQuerySet:
        """Transactions whose tool this process has. It has all that are not Python."""
        return self.filter(Q(tool__in=sorted(tools)) | Q(tool_version__isnull=False))

    def for_workers(self) -> TransactionQuerySet:
        """Without those that the proposing agent carries out itself, with a permit."""
        return self.filter(Q(tool_version=None) | ~Exists(versions_for_agents()))

    def awaiting_agents(self) -> TransactionQuerySet:
        """Signed off, and the proposing agent has not redeemed a permit yet."""
        return self.filter(Exists(versions_for_agents()), state=State.APPROVED)

    def begun_by_nobody(self) -> TransactionQuerySet:
        """Signed off for good, not stopped, and no row of the same operation has a late receipt."""
        signed_off = self.past_not_before().filter(not_stopped(), state=State.APPROVED)
        return signed_off.judged_by_active_rules().without_late_receipt_of_operation()

    def judged_by_active_rules(self) -> TransactionQuerySet:
        """Those that no other rules than the active ones of their tenant were the last to judge."""
        return self.filter(~Exists(tenants_with_other_rules()))

    def judged_by_other_rules(self) -> TransactionQuerySet:
        return self.filter(Exists(tenants_with_other_rules()))

    def still_true(self) -> TransactionQuerySet:
        """Those that can be claimed without another look."""
        is_young = Q(true_until=None) | Q(true_until__gt=Now())
        return self.filter(is_young, Q(touches=None) | ~Exists(self._took_effect()))

    def not_true_any_more(self) -> TransactionQuerySet:
        """Their plan is too old, or another transaction took effect on what they touch."""
        return self.filter(Q(true_until__lte=Now()) | Exists(self._took_effect()))

    def touched_since(self) -> TransactionQuerySet:
        """Those on whose resources another transaction took effect after they were planned."""
        return self.filter(Exists(self._took_effect()))

    def _took_effect(self) -> TransactionQuerySet:
        planned_at = Coalesce(OuterRef("planned_at"), OuterRef("created_at"))
        others = TransactionQuerySet(self.model).exclude(pk=OuterRef("pk"))
        return others.filter(
            tenant=OuterRef("tenant"),
            touches__overlap=OuterRef("touches"),
            state__in=sorted(WITH_EFFECT),
            ended_at__gt=planned_at,
        )

    def past_not_before(self) -> TransactionQuerySet:
        """Past the back-off, or the time to undo the approval, by the database's clock."""
        return self.filter(Q(next_attempt_at=None) | Q(next_attempt_at__lte=Now()))

    def without_late_receipt_of_operation(self) -> TransactionQuerySet:
        """With a late receipt of one row the operation may have been carried out already."""
        same = {"tenant": OuterRef("tenant"), "operation_key": OuterRef("operation_key")}
        unexplained = TransactionQuerySet(self.model).with_late_receipt().filter(**same)
        return self.filter(~Exists(unexplained))

    def in_doubt(self) -> TransactionQuerySet:
        return self.filter(state=State.IN_DOUBT)

    def inquiry_due(self) -> TransactionQuerySet:
        """In doubt, and past the back-off between two inquiries, by the database's clock."""
        return self.in_doubt().filter(next_attempt_at__lte=Now())

    def accepted(self) -> TransactionQuerySet:
        """Their tools have accepted them, and are asked for them until they are done."""
        return self.filter(
            state=State.COMMITTING, lease_expires_at=None, next_attempt_at__isnull=False
        )

    def accepted_due(self) -> TransactionQuerySet:
        """To be asked for again, by the database's clock."""
        return self.accepted().filter(next_attempt_at__lte=Now())

    def work_due(self, state: State) -> TransactionQuerySet:
        """In ``state``, leased to no worker and past its back-off, by the database's clock."""
        is_free = Q(lease_expires_at=None) | Q(lease_expires_at__lte=Now())
        return self.past_not_before().filter(is_free, state=state)

    def lease_lapsed(self) -> TransactionQuerySet:
        """Claimed by a worker whose lease has run out, by the database's clock."""
        return self.filter(state=State.COMMITTING, lease_expires_at__lte=Now())

    def due(self) -> TransactionQuerySet:
        """Waiting for sign-off, past ``expires_at`` by the database's clock, and no brake's."""
        return self.filter(clock_runs(), state=State.PREPARED, expires_at__lte=Now())

    def holding(self, tenant: str, operation_key: str) -> TransactionQuerySet:
        """The one transaction, if any, that has this operation key."""
        return self.filter(HOLDS_ITS_KEY, tenant=tenant, operation_key=operation_key)


class Transaction(models.Model):
    """One proposed use of one tool.

    Only ``ledger.transactions.transitions`` writes ``state``, and ``insert`` its first value.
    """

    id = models.UUIDField(primary_key=True, default=new_id)
    tenant = models.CharField(max_length=63)
    state = models.CharField(max_length=20, choices=State)

    # The proposer and its run.
    proposed_by = models.CharField(max_length=150)
    proposed_by_name = models.CharField(max_length=200)
    stated_reason = models.TextField(blank=True)
    run_id = models.CharField(max_length=200, blank=True)
    step_id = models.CharField(max_length=200, blank=True)
    trace_id = models.CharField(max_length=32, blank=True)
    traceparent = models.CharField(max_length=55, blank=True)

    # The contract as it stood, the request, and the plan.
    tool = models.CharField(max_length=100)
    tool_version = models.CharField(  # noqa: DJ001
        max_length=64, null=True, help_text="SHA-256 of its manifest, if it is not Python."
    )
    owner_service = models.CharField(max_length=100)
    risk_level = models.CharField(max_length=10)
    required_approver = models.CharField(max_length=10)
    consequence_level = models.CharField(max_length=15)
    quorum = models.PositiveSmallIntegerField(default=1)
    keeper_may_sign = models.BooleanField(default=False, db_default=False)
    required_policy = models.CharField(max_length=64, blank=True, default="", db_default="")
    terms = models.JSONField(
        null=True, help_text="What the tenant's rules made of the contract; null: there were none."
    )
    open_seats = ArrayField(models.CharField(max_length=63), null=True)  # "" and null: anybody's
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
    evidence = models.JSONField(
        null=True, help_text="Name, media type and SHA-256 of what the approver sees besides."
    )
    intent_digest = models.CharField(max_length=64)
    revision = models.PositiveSmallIntegerField(default=1, db_default=1)
    touches = ArrayField(models.CharField(max_length=500), null=True)  # as payment:pay_1042
    replaces = models.UUIDField(null=True)  # what was sent back, and is proposed anew

    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    decided_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    retain_until = models.DateTimeField(help_text="From then on the content is erased.")
    asked_at = models.DateTimeField(null=True)  # a question waits for the agent
    planned_at = models.DateTimeField(null=True)  # anew; empty: when it was created
    true_until = models.DateTimeField(null=True)  # then it is looked at again before it begins
    legal_hold_at = models.DateTimeField(null=True, help_text="An operator keeps the content.")
    content_erased_at = models.DateTimeField(null=True)

    # Each claim raises the fencing token; a write with an older one matches no row.
    fencing_token = models.PositiveIntegerField(default=0)
    lease_expires_at = models.DateTimeField(null=True)
    attempts = models.PositiveSmallIntegerField(default=0)
    next_attempt_at = models.DateTimeField(null=True)

    # The outcome.
    receipt = models.CharField(max_length=500, blank=True)
    receipt_url = models.CharField(max_length=2000, blank=True)
    result = models.JSONField(null=True)
    error = models.TextField(blank=True)
    error_source = models.JSONField(
        null=True, help_text="Code and values that the text was made from."
    )
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
    ending_reason_source = models.JSONField(
        null=True, help_text="Code and values that the text was made from."
    )
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
            # The queries of the sweeper, once a second.
            models.Index(
                name="ledger_tx_due", fields=["expires_at"], condition=Q(state=State.PREPARED)
            ),
            models.Index(
                name="ledger_tx_work",
                fields=["state", "next_attempt_at"],
                condition=Q(state__in=sorted([State.APPROVED, State.IN_DOUBT, *AT_WORK])),
            ),
            # The desk's list; a tenant's history (newest first by id); an agent's own.
            models.Index(
                name="ledger_tx_desk",
                fields=["tenant", "expires_at"],
                condition=Q(state__in=sorted(OPEN)) | NEEDS_A_LOOK,
            ),
            # How many an agent has pending, and the most urgent of each agent on the desk.
            models.Index(
                name="ledger_tx_pending",
                fields=["tenant", "proposed_by", "expires_at"],
                condition=Q(state=State.PREPARED),
            ),
            # What supervising agents wait for, the most urgent first.
            models.Index(
                name="ledger_tx_supervised",
                fields=["tenant", "expires_at", "id"],
                condition=Q(state=State.PREPARED, required_approver="SUPERVISOR"),
            ),
            # Queried before an operation is begun again.
            models.Index(
                name="ledger_tx_late",
                fields=["tenant", "operation_key"],
                condition=~Q(late_receipt=""),
            ),
            # What else touches the same.
            GinIndex(
                name="ledger_tx_touches", fields=["touches"], condition=Q(touches__isnull=False)
            ),
            # The proposals that followed what was sent back.
            models.Index(
                name="ledger_tx_replaces", fields=["replaces"], condition=Q(replaces__isnull=False)
            ),
            models.Index(name="ledger_tx_history", fields=["tenant", "-id"]),
            # What was decided while somebody was away.
            models.Index(
                name="ledger_tx_decided",
                fields=["tenant", "-decided_at"],
                condition=Q(decided_at__isnull=False) & ~Q(required_approver="NONE"),
            ),
            models.Index(name="ledger_tx_proposer", fields=["proposed_by", "-id"]),
            # What operators filter by; what is open is few, and has an index above.
            models.Index(
                name="ledger_tx_ended_by_state",
                fields=["tenant", "state", "-id"],
                condition=Q(state__in=sorted(FINAL)),
            ),
            models.Index(name="ledger_tx_by_tool", fields=["tenant", "tool", "-id"]),
            # What the sweeper erases.
            models.Index(
                name="ledger_tx_to_erase",
                fields=["retain_until"],
                condition=Q(state__in=sorted(FINAL), content_erased_at=None, legal_hold_at=None),
            ),
            # What operators hold back; few rows at any time.
            models.Index(
                name="ledger_tx_legal_hold",
                fields=["tenant", "-id"],
                condition=Q(legal_hold_at__isnull=False),
            ),
            models.Index(
                name="ledger_tx_erased",
                fields=["tenant", "-id"],
                condition=Q(content_erased_at__isnull=False),
            ),
            models.Index(name="ledger_tx_receipt", fields=["receipt"], condition=~Q(receipt="")),
            models.Index(name="ledger_tx_trace", fields=["trace_id"], condition=~Q(trace_id="")),
            models.Index(name="ledger_tx_run", fields=["run_id"], condition=~Q(run_id="")),
        ]

    def __str__(self) -> str:
        return f"{self.headline[:80]} ({self.short_id})"

    @property
    def short_id(self) -> str:
        """The last eight digits; the first ones are the time, so they are alike in neighbours."""
        return self.id.hex[-8:]

    @property
    def ledger_status(self) -> LedgerStatus:
        return LEDGER_STATUS[State(self.state)]

    @property
    def is_final(self) -> bool:
        return self.state in FINAL

    @property
    def is_accepted(self) -> bool:
        """As ``TransactionQuerySet.accepted()``."""
        return is_accepted(self)

    @property
    def financial_impact(self) -> dict[str, str] | None:
        return seals.financial_impact(self.amount, self.currency)

    @property
    def headline(self) -> str:
        """The title for people: the plan's summary, or the date of its erasure."""
        if self.content_erased_at is None:
            return self.action_summary
        return f"{self.tool}: content erased on {self.content_erased_at:%Y-%m-%d}"

    @property
    def is_untouched(self) -> bool:
        """True if the row still has the intent digest that was computed from it."""
        return seals.digest_of(seals.intent_of(self)) == self.intent_digest


def is_accepted(row: Any) -> bool:
    is_free = row.lease_expires_at is None and row.next_attempt_at is not None
    return row.state == State.COMMITTING and is_free
