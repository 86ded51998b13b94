"""Tables of reports: figures counted from the audit log, search terms, readings."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.functions import Now

from ledger.models.ids import new_id


class UsageDay(models.Model):
    """Number of times one agent asked for one tool on one day (UTC), and what became of it.

    ``kind`` is that of the event. Amounts are counted where it was approved, by their size
    (``ledger.reporting.usage.buckets``); of other kinds the currency is empty.
    """

    tenant = models.CharField(max_length=63)
    day = models.DateField()
    tool = models.CharField(max_length=100)
    agent = models.CharField(max_length=150, help_text="As agent:acme/helpdesk.")
    kind = models.CharField(max_length=30)
    currency = models.CharField(max_length=3, blank=True)
    size = models.SmallIntegerField()
    number = models.PositiveIntegerField()
    # Of requests: how many came in each hour of the day. None of days counted by older versions.
    hours = ArrayField(models.PositiveIntegerField(), null=True)

    class Meta:
        constraints = [
            # In the order in which the figures of a tenant are read.
            models.UniqueConstraint(
                name="ledger_usageday_once",
                fields=["tenant", "day", "tool", "agent", "kind", "currency", "size"],
            )
        ]
        indexes = [
            # What an approver is told of one agent and tool.
            models.Index(name="ledger_usageday_agent", fields=["tenant", "tool", "agent", "day"])
        ]

    def __str__(self) -> str:
        return f"{self.agent} {self.kind} {self.tool} on {self.day}: {self.number}"


class UsageHour(models.Model):
    """Counts of what became of one tool in one hour (UTC), or of how long people took to decide.

    Of waits the kind is ``waited`` and the tool is empty; of the others ``wait`` is
    ``ledger.reporting.usage.buckets.NONE``.
    """

    tenant = models.CharField(max_length=63)
    hour = models.DateTimeField()
    tool = models.CharField(max_length=100)
    kind = models.CharField(max_length=30)
    wait = models.SmallIntegerField()
    number = models.PositiveIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="ledger_usagehour_once", fields=["tenant", "hour", "tool", "kind", "wait"]
            )
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.tool} at {self.hour}: {self.number}"


class UsageDecider(models.Model):
    """Counts of somebody's decisions on what one agent asked for, on one day (UTC); how fast."""

    tenant = models.CharField(max_length=63)
    day = models.DateField()
    decider = models.CharField(max_length=150, help_text="As user:7 or agent:acme/goodwill.")
    agent = models.CharField(max_length=150)
    kind = models.CharField(max_length=30)
    wait = models.SmallIntegerField()
    number = models.PositiveIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="ledger_usagedecider_once",
                fields=["tenant", "day", "decider", "agent", "kind", "wait"],
            )
        ]

    def __str__(self) -> str:
        return f"{self.decider} {self.kind} for {self.agent} on {self.day}: {self.number}"


class SubjectUse(models.Model):
    """The person or thing a recent transaction concerns: a keyed hash, erased with the content."""

    transaction_id = models.UUIDField(primary_key=True)
    tenant = models.CharField(max_length=63)
    tool = models.CharField(max_length=100)
    subject = models.CharField(max_length=32)

    class Meta:
        indexes = [
            models.Index(
                name="ledger_subjectuse_of",
                fields=["tenant", "tool", "subject", "-transaction_id"],
            )
        ]

    def __str__(self) -> str:
        return f"{self.tool}: {self.transaction_id}"


class UsageCursor(models.Model):
    """The last event that is counted: one row, which who counts has locked."""

    id = models.SmallIntegerField(primary_key=True)
    upto_event = models.BigIntegerField()

    class Meta:
        constraints = [
            models.CheckConstraint(name="ledger_usagecursor_one_row", condition=models.Q(id=1))
        ]

    def __str__(self) -> str:
        return f"up to event {self.upto_event}"


@models.CharField.register_lookup
@models.TextField.register_lookup
class Unaccented(models.Transform):
    """``name__unaccented``: without accents, as ``reporting.search.unaccented`` writes it."""

    lookup_name = "unaccented"
    function = "ledger_unaccented"


class SearchTerm(models.Model):
    """A term of one ended transaction: a word, or ``:risk:``, ``:tool:``, ``:id:`` and a value.

    The database writes the rows when a transaction ends and deletes those of erased content
    (``ledger/sql/search_terms.sql``). The primary key gives the newest of a term without a sort.
    """

    pk = models.CompositePrimaryKey("tenant", "term", "transaction_id")
    tenant = models.CharField(max_length=63)
    # By bytes: the words with one beginning are neighbours in the index.
    term = models.CharField(max_length=110, db_collation="C")
    transaction_id = models.UUIDField()

    def __str__(self) -> str:
        return self.term


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
