"""Tasks, their messages and their artifacts."""

from __future__ import annotations

from functools import reduce
from operator import or_

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q, Value
from django.db.models.expressions import Combinable, RawSQL
from django.db.models.functions import Now

from a2a import validation
from a2a.errors import Reason
from a2a.models.skills import Skill
from a2a.states import FINAL, OPEN, TaskState
from ledger.agents import Caller
from ledger.models import Event, Scope, Transaction, new_id
from ledger.principals import Principal, system

# Owner of the tasks that Assent executes itself.
ASSENT = system("assent", "Assent")
# May be claimed now: past the back-off after a failed attempt, by the database's clock.
DUE = Q(next_attempt_at=None) | Q(next_attempt_at__lte=Now())


class TaskQuerySet(models.QuerySet["Task"]):
    def for_tenants(self, tenants: frozenset[str]) -> TaskQuerySet:
        return self.filter(tenant__in=tenants)

    def visible_to(self, caller: Caller) -> TaskQuerySet:
        """Tasks it submitted or works on; with the scope ``read_all``, all of its tenant's."""
        return self.filter(reduce(or_, visible_if_any(caller)))

    def visible_to_agent(
        self, principal: Combinable, tenant: Combinable, reads_all: Q | RawSQL
    ) -> TaskQuerySet:
        """The rule of ``visible_to`` over SQL expressions, for statements with many callers."""
        return self.filter(reduce(or_, _visible(principal, tenant, reads_all)))

    def claimable(self) -> TaskQuerySet:
        """Waiting for a worker, by the database's clock; of whichever agent."""
        return self.filter(DUE, state=TaskState.SUBMITTED, expires_at__gt=Now(), transaction=None)

    def before(self, task: Task) -> TaskQuerySet:
        """Tasks that its agent is given before this one, which waits too."""
        return self.claimable().filter(owner=task.owner, pk__lt=task.pk)

    def open(self) -> TaskQuerySet:
        return self.filter(state__in=sorted(OPEN))

    def abandoned(self) -> TaskQuerySet:
        """At work, with a lease that has run out by the database's clock."""
        return self.filter(
            ~Q(owner=str(ASSENT)),
            state=TaskState.WORKING,
            lease_expires_at__lte=Now(),
            mirror=None,
        )

    def has_room_in(self, skill: Skill) -> bool:
        """True if the skill takes one more. Call it while holding the lock on the skill's row."""
        if skill.max_concurrency is None:
            return True
        return self.open().filter(skill=skill)[: skill.max_concurrency].count() < (
            skill.max_concurrency
        )

    def of_assent(self) -> TaskQuerySet:
        """Open tasks that Assent executes itself."""
        return self.open().filter(owner=str(ASSENT))

    def overtime(self) -> TaskQuerySet:
        """Past ``expires_at``, and not waiting for a person."""
        at_work = sorted({TaskState.SUBMITTED, TaskState.WORKING})
        return self.filter(state__in=at_work, expires_at__lte=Now())


def visible_if_any(caller: Caller) -> list[Q]:
    """The conditions of ``visible_to``, of which one suffices, for ``keyset_page``."""
    everything, nothing = ~Q(pk__in=[]), Q(pk__in=[])
    reads_all = everything if Scope.READ_ALL in caller.scopes else nothing
    return _visible(Value(str(caller.principal)), Value(caller.tenant), reads_all)


def _visible(principal: Combinable, tenant: Combinable, reads_all: Q | RawSQL) -> list[Q]:
    return [
        Q(submitted_by=principal),
        Q(tenant=tenant, owner=principal),
        Q(tenant=tenant) & Q(reads_all),
    ]


class Task(models.Model):
    """Work for an agent. ``state`` is written by ``a2a.tasks.transitions`` only."""

    id = models.UUIDField(primary_key=True, default=new_id)
    tenant = models.CharField(max_length=63)
    context_id = models.CharField(max_length=100)
    state = models.CharField(max_length=20, choices=TaskState)

    skill = models.ForeignKey(Skill, on_delete=models.PROTECT, null=True, related_name="tasks")
    skill_slug = models.CharField(max_length=100)
    input = models.JSONField(null=True)
    result = models.JSONField(null=True)
    metadata = models.JSONField(default=dict)

    # The client, the agent that has the task now, and the task that it was delegated from.
    submitted_by = models.CharField(max_length=150)
    submitted_by_name = models.CharField(max_length=200)
    owner = models.CharField(max_length=150, blank=True)
    owner_name = models.CharField(max_length=200, blank=True)
    parent = models.ForeignKey("self", on_delete=models.PROTECT, null=True, related_name="children")
    depth = models.PositiveSmallIntegerField(default=0)
    # The ended task that this one is a revision of; the first revision of a task has number 1.
    revises = models.ForeignKey(
        "self", on_delete=models.PROTECT, null=True, db_index=False, related_name="revisions"
    )
    revision = models.PositiveSmallIntegerField(null=True)
    may_answer = ArrayField(
        models.CharField(max_length=150),
        null=True,
        help_text="Who answers its questions where the worker names nobody; as in a question.",
    )
    # Scopes that the client's token and envelope lent to this request; they limit hand-overs.
    lent_scopes = ArrayField(models.CharField(max_length=200), default=list)
    trace_id = models.CharField(max_length=128, blank=True)
    idempotency_key = models.CharField(max_length=255, blank=True)
    payload_hash = models.CharField(max_length=64)
    envelope_message_id = models.CharField(max_length=200, blank=True)
    card_version = models.CharField(max_length=50, blank=True)
    reads_text = models.BooleanField(
        null=True,
        help_text="The client wrote, or accepts, text: results begin with one. Empty: not known.",
    )

    # How far it is, and why it stopped.
    stage = models.CharField(max_length=200, blank=True)
    percent = models.PositiveSmallIntegerField(null=True)
    note = models.TextField(blank=True)
    reason_code = models.CharField(max_length=40, choices=Reason, blank=True)
    reason = models.TextField(blank=True)
    reason_source = models.JSONField(
        null=True, help_text="Code and values that the text was made from."
    )
    errors = models.JSONField(default=list, help_text="What did not fit a schema.")
    cost = models.JSONField(
        null=True, help_text="What the worker says that it cost: amount and currency, or tokens."
    )

    created_at = models.DateTimeField(db_default=Now())
    updated_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    retain_until = models.DateTimeField(null=True, help_text="From then on the content is erased.")
    legal_hold_at = models.DateTimeField(null=True, help_text="An operator keeps the content.")
    content_erased_at = models.DateTimeField(null=True)

    # Each claim raises the fencing token; a write with an older one is refused.
    fencing_token = models.PositiveIntegerField(default=0)
    lease_expires_at = models.DateTimeField(null=True)
    attempts = models.PositiveSmallIntegerField(default=0)
    next_attempt_at = models.DateTimeField(null=True)

    # What it stands for, when the work is a sign-off.
    transaction = models.ForeignKey(
        Transaction, on_delete=models.PROTECT, null=True, related_name="tasks"
    )

    objects = TaskQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="a2a_task_state_is_on_the_map", condition=Q(state__in=TaskState.values)
            ),
            models.CheckConstraint(
                name="a2a_task_ended_has_an_end",
                condition=Q(state__in=sorted(FINAL), ended_at__isnull=False)
                | (~Q(state__in=sorted(FINAL)) & Q(ended_at=None)),
            ),
            models.CheckConstraint(
                name="a2a_task_bad_end_has_a_reason",
                condition=~Q(state__in=["failed", "canceled", "rejected"]) | ~Q(reason_code=""),
            ),
            models.UniqueConstraint(
                name="a2a_task_one_per_request",
                fields=["submitted_by", "idempotency_key"],
                condition=~Q(idempotency_key=""),
            ),
            models.UniqueConstraint(
                name="a2a_task_one_per_envelope",
                fields=["submitted_by", "envelope_message_id"],
                condition=~Q(envelope_message_id=""),
            ),
        ]
        indexes = [
            # A worker's claim.
            models.Index(
                name="a2a_task_to_claim", fields=["owner", "id"], condition=Q(state="submitted")
            ),
            # Queries of the sweeper, once a second.
            models.Index(
                name="a2a_task_lease", fields=["lease_expires_at"], condition=Q(state="working")
            ),
            models.Index(
                name="a2a_task_overtime",
                fields=["expires_at"],
                condition=Q(state__in=["submitted", "working"]),
            ),
            # How many a skill has; the desk's lists; a client's own.
            models.Index(
                name="a2a_task_open",
                fields=["skill", "state"],
                condition=Q(state__in=sorted(OPEN)),
            ),
            # How many an agent has open.
            models.Index(
                name="a2a_task_per_agent",
                fields=["tenant", "submitted_by"],
                condition=Q(ended_at=None),
            ),
            # The operations page: tasks that ended in the last minutes.
            models.Index(
                name="a2a_task_ended", fields=["ended_at"], condition=Q(ended_at__isnull=False)
            ),
            # What the sweeper erases.
            models.Index(
                name="a2a_task_retention",
                fields=["retain_until"],
                condition=Q(ended_at__isnull=False, content_erased_at=None, legal_hold_at=None),
            ),
            # What operators hold back; few rows at any time.
            models.Index(
                name="a2a_task_legal_hold",
                fields=["tenant", "-id"],
                condition=Q(legal_hold_at__isnull=False),
            ),
            # The operators' list of what was erased.
            models.Index(
                name="a2a_task_erased",
                fields=["tenant", "-id"],
                condition=Q(content_erased_at__isnull=False),
            ),
            # The lists of the desk and of REST.
            models.Index(name="a2a_task_history", fields=["tenant", "-id"]),
            models.Index(name="a2a_task_by_skill", fields=["tenant", "skill_slug", "-id"]),
            models.Index(
                name="a2a_task_by_state",
                fields=["tenant", "state", "-id"],
                condition=Q(state__in=sorted(FINAL)),
            ),
            models.Index(
                name="a2a_task_submitted_ended",
                fields=["submitted_by", "state"],
                condition=Q(state__in=sorted(FINAL)),
            ),
            models.Index(name="a2a_task_submitted", fields=["submitted_by", "-id"]),
            models.Index(name="a2a_task_owned", fields=["owner", "-id"]),
            # ListTasks: what an agent submitted, what it works on, what its tenant has.
            models.Index(name="a2a_task_submitter", fields=["submitted_by", "-updated_at", "-id"]),
            models.Index(name="a2a_task_owner", fields=["owner", "-updated_at", "-id"]),
            models.Index(name="a2a_task_of_tenant", fields=["tenant", "-updated_at", "-id"]),
            models.Index(name="a2a_task_context", fields=["context_id"]),
            # The tree of revisions on a task's page.
            models.Index(
                name="a2a_task_revises", fields=["revises"], condition=Q(revises__isnull=False)
            ),
            models.Index(
                name="a2a_task_of_assent",
                fields=["owner", "state"],
                condition=Q(state__in=sorted(OPEN)),
            ),
            models.Index(name="a2a_task_trace", fields=["trace_id"], condition=~Q(trace_id="")),
        ]

    def __str__(self) -> str:
        return f"{self.skill_slug} ({self.short_id})"

    @property
    def short_id(self) -> str:
        return self.id.hex[-8:]

    @property
    def submitter(self) -> Principal:
        return Principal.parse(self.submitted_by, self.submitted_by_name)

    @property
    def is_final(self) -> bool:
        return self.state in FINAL

    def is_visible_to(self, caller: Caller) -> bool:
        """The rule of ``visible_to``, for a task that was read already."""
        principal = str(caller.principal)
        is_at_home = self.tenant == caller.tenant
        reads_it = self.owner == principal or Scope.READ_ALL in caller.scopes
        return self.submitted_by == principal or (is_at_home and reads_it)

    @property
    def traceparent(self) -> str:
        """The W3C Trace Context header; empty if the trace id has another form."""
        if not validation.is_w3c_trace_id(self.trace_id):
            return ""
        return f"00-{self.trace_id}-{self.pk.hex[:16]}-01"

    @property
    def events(self) -> models.QuerySet[Event]:
        return Event.objects.filter(subject=self.pk).order_by("seq")


class Role(models.TextChoices):
    USER = "user", "the client"
    AGENT = "agent", "the agent"


class Message(models.Model):
    """A message on a task, by its client or by its worker. ``parts`` are the protocol's."""

    task = models.ForeignKey(Task, on_delete=models.CASCADE, related_name="messages")
    message_id = models.CharField(max_length=200)
    role = models.CharField(max_length=5, choices=Role)
    principal = models.CharField(max_length=150)
    principal_name = models.CharField(max_length=200)
    parts = models.JSONField()
    metadata = models.JSONField(default=dict)
    at = models.DateTimeField(db_default=Now())

    class Meta:
        indexes = [models.Index(name="a2a_message_history", fields=["task", "id"])]

    def __str__(self) -> str:
        return f"{self.role} on {self.task_id}"


class Artifact(models.Model):
    """A result of a task, or a part of it. Workers may append parts."""

    task = models.ForeignKey(Task, on_delete=models.CASCADE, related_name="artifacts")
    artifact_id = models.CharField(max_length=200)
    name = models.CharField(max_length=200, blank=True)
    description = models.TextField(blank=True)
    parts = models.JSONField()
    metadata = models.JSONField(default=dict)
    is_complete = models.BooleanField(default=True)
    at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(name="a2a_artifact_one_per_id", fields=["task", "artifact_id"])
        ]

    def __str__(self) -> str:
        return self.name or self.artifact_id
