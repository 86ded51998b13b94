"""Limits of who may act: brakes, the requests that limits refused, and the one sweeper at work."""

from __future__ import annotations

from typing import Any

from django.db import models
from django.db.models import CheckConstraint, Exists, F, Func, OuterRef, Q
from django.db.models.expressions import Combinable
from django.db.models.functions import Now


class LimitRefusal(models.Model):
    """Requests that one limit refused within one minute. Kept for a few days."""

    minute = models.DateTimeField()
    limit = models.CharField(max_length=20)
    of = models.CharField(max_length=10, help_text="agent, tenant, token or address")
    tenant = models.CharField(max_length=63, blank=True)
    agent = models.CharField(max_length=63, blank=True, help_text="The agent's slug.")
    number = models.PositiveIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="ledger_limitrefusal_one_per_minute",
                fields=["minute", "limit", "of", "tenant", "agent"],
            )
        ]

    def __str__(self) -> str:
        return f"{self.number} times {self.limit} of {self.of}"


# As ``standing()``, by the clock of that moment, for SQL of the hot path.
STANDING_SQL = (
    "brake.counted_at IS NULL AND brake.lifted_at IS NULL"
    " AND (brake.until IS NULL OR brake.until > clock_timestamp())"
)


class BrakeQuerySet(models.QuerySet["Brake"]):
    def standing(self) -> BrakeQuerySet:
        """Neither lifted nor lapsed, by the database's clock."""
        return self.filter(Q(until=None) | Q(until__gt=Now()), lifted_at=None)

    def ended(self) -> BrakeQuerySet:
        return self.filter(Q(lifted_at__isnull=False) | Q(until__lte=Now()))

    def uncounted(self) -> BrakeQuerySet:
        """Standing, or the clocks under it have not been set going again."""
        return self.filter(counted_at=None)

    def holds_of(self, tenant: str, tool: str) -> BrakeQuerySet:
        """The hold that stands over the tool; there is one at most."""
        return self.standing().filter(tenant=tenant, tool=tool, is_hold=True)

    def over(
        self, tenant: str | Combinable, agent: str | Combinable, tool: str | Combinable
    ) -> BrakeQuerySet:
        """Those that stop what this agent of the tenant does with the tool."""
        return self.filter(tenant__in=["", tenant], agent__in=["", agent], tool__in=["", tool])

    def over_row(self) -> BrakeQuerySet:
        """The same of the transaction of an outer query."""
        return self.over(OuterRef("tenant"), OuterRef("proposed_by"), OuterRef("tool"))


class Brake(models.Model):
    """Stops what an agent, a tool, a tenant or everything would begin.

    ``ledger.events.brakes`` writes it. Empty parts of the scope stand for all; without a tenant
    it is the whole installation.
    """

    tenant = models.CharField(max_length=63, blank=True)
    agent = models.CharField(max_length=150, blank=True, help_text="As agent:acme/helpdesk.")
    tool = models.CharField(max_length=100, blank=True)
    why = models.CharField(max_length=500)
    at = models.DateTimeField(db_default=Now())
    by = models.CharField(max_length=150)
    by_name = models.CharField(max_length=200)
    until = models.DateTimeField(null=True, help_text="It lapses then; empty: until it is lifted.")
    keeps = models.BooleanField(
        default=False,
        db_default=False,
        help_text="What agents propose meanwhile waits, where planning it holds nothing.",
    )
    is_hold = models.BooleanField(
        default=False,
        db_default=False,
        help_text="What the tool's owner publishes has changed: it ends where that is accepted.",
    )
    lifted_at = models.DateTimeField(null=True)
    lifted_by = models.CharField(max_length=150, blank=True, db_default="", default="")
    lifted_by_name = models.CharField(max_length=200, blank=True, db_default="", default="")
    counted_at = models.DateTimeField(
        null=True, help_text="The clocks under it go on, for what was left when it was put."
    )

    objects = BrakeQuerySet.as_manager()

    class Meta:
        constraints = [
            CheckConstraint(
                name="ledger_brake_agent_has_tenant", condition=Q(agent="") | ~Q(tenant="")
            ),
            CheckConstraint(
                name="ledger_brake_is_lifted_by_somebody",
                condition=Q(lifted_at=None, lifted_by="")
                | (Q(lifted_at__isnull=False) & ~Q(lifted_by="")),
            ),
            CheckConstraint(
                name="ledger_brake_hold_is_of_one_tool",
                condition=Q(is_hold=False) | Q(agent="", until=None) & ~Q(tenant="") & ~Q(tool=""),
            ),
            models.UniqueConstraint(
                name="ledger_brake_one_hold_of_a_tool",
                fields=["tenant", "tool"],
                condition=Q(is_hold=True, lifted_at=None),
            ),
        ]
        indexes = [
            # Asked at every claim; few rows at any time.
            models.Index(
                name="ledger_brake_uncounted", fields=["tenant"], condition=Q(counted_at=None)
            ),
        ]

    def __str__(self) -> str:
        parts = [part for part in (self.tenant, self.agent, self.tool) if part]
        return " ".join(parts) or "everything"

    def is_over(self, row: Any) -> bool:
        """True if it stops this transaction while it stands."""
        of_row = zip(
            (self.tenant, self.agent, self.tool),
            (row.tenant, row.proposed_by, row.tool),
            strict=True,
        )
        return all(part in ("", own) for part, own in of_row)


def not_stopped() -> Q:
    """True of transactions under no standing brake. To find what is due; a claim asks again."""
    return ~Q(Exists(Brake.objects.uncounted().standing().over_row()))


def clock_runs() -> Q:
    """True of transactions whose time runs, and has been set going again after every brake."""
    return ~Q(Exists(Brake.objects.uncounted().over_row()))


def may_begin() -> Q:
    """True of transactions under no brake that was put before this is committed.

    Until then no ``put`` returns: ``ledger/sql/brakes.sql`` says how.
    """
    of_row = (F("tenant"), F("proposed_by"), F("tool"))
    return ~Q(Func(*of_row, function="ledger_is_stopped", output_field=models.BooleanField()))


class SweeperLease(models.Model):
    """The one row that sweepers compete for. ``ledger.workers.leadership`` writes it."""

    id = models.SmallIntegerField(primary_key=True)
    # Raised by one when another sweeper takes over.
    epoch = models.BigIntegerField()
    holder = models.CharField(max_length=200, help_text="Host, process and a random part.")
    beat_at = models.DateTimeField(help_text="Its last sign of life, by the database's clock.")

    class Meta:
        constraints = [
            models.CheckConstraint(name="ledger_sweeperlease_one_row", condition=models.Q(id=1))
        ]

    def __str__(self) -> str:
        return f"{self.holder} (epoch {self.epoch})"
