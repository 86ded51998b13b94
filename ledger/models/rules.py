"""Rule sets, a tenant's rules about who signs what; groups of people who sign; grants, budgets."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from ledger.errors import Sentence
from ledger.models.transactions import Transaction


class RuleSetState(models.TextChoices):
    DRAFT = "draft", Sentence("draft")
    PREVIEW = "preview", Sentence("in preview")
    ACTIVE = "active", Sentence("active")
    RETIRED = "retired", Sentence("retired")


IN_WORK = sorted([RuleSetState.DRAFT, RuleSetState.PREVIEW])


class RuleSet(models.Model):
    """The rules of one tenant at one time. Once active they never change.

    Written by ``ledger.sign_off.rules.sets`` only; ``Tenant.rule_set`` is the active one's number.
    """

    tenant = models.CharField(max_length=63)
    number = models.PositiveIntegerField(help_text="Counts the sets of the tenant, from 1.")
    state = models.CharField(max_length=10, choices=RuleSetState, default=RuleSetState.DRAFT)
    rules = models.JSONField(default=list)
    sha256 = models.CharField(max_length=64, help_text="Of the rules, as canonical JSON.")
    made_by = models.CharField(max_length=150)
    made_by_name = models.CharField(max_length=200)
    made_at = models.DateTimeField(db_default=Now())
    previewed_at = models.DateTimeField(null=True, help_text="Judged beside the active one since.")
    activated_by = models.CharField(max_length=150, blank=True)
    activated_by_name = models.CharField(max_length=200, blank=True)
    activated_at = models.DateTimeField(null=True)
    retired_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "number"], name="ledger_rule_set_one_per_number"
            ),
            models.UniqueConstraint(
                fields=["tenant"],
                condition=Q(state=RuleSetState.ACTIVE),
                name="ledger_rule_set_one_active",
            ),
            models.UniqueConstraint(
                fields=["tenant"],
                condition=Q(state__in=IN_WORK),
                name="ledger_rule_set_one_in_work",
            ),
        ]

    def __str__(self) -> str:
        return f"rules {self.number} of {self.tenant}"


class Group(models.Model):
    """People of a tenant who sign together; rules ask for so many of them.

    Written by ``ledger.sign_off.groups`` only.
    """

    tenant = models.CharField(max_length=63)
    name = models.SlugField(max_length=63)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tenant", "name"], name="ledger_group_one_per_name")
        ]

    def __str__(self) -> str:
        return f"{self.name} of {self.tenant}"


class GroupMemberQuerySet(models.QuerySet["GroupMember"]):
    def live(self) -> GroupMemberQuerySet:
        """Those who are members now, by the database's clock."""
        lasts = Q(ends_at=None) | Q(ends_at__gt=Now())
        return self.filter(lasts, removed_at=None, starts_at__lte=Now())


class GroupMember(models.Model):
    """A person in a group, from one time to another. Never deleted; written with its group."""

    group = models.ForeignKey(Group, on_delete=models.PROTECT, related_name="members")
    person = models.CharField(max_length=150, help_text="As user:7.")
    person_name = models.CharField(max_length=200)
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField(null=True)
    in_place_of = models.CharField(max_length=150, blank=True, help_text="As user:7.")
    in_place_of_name = models.CharField(max_length=200, blank=True)
    added_by = models.CharField(max_length=150)
    removed_at = models.DateTimeField(null=True)

    objects = GroupMemberQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["group", "person"],
                condition=Q(removed_at=None),
                name="ledger_group_member_once",
            )
        ]

    def __str__(self) -> str:
        return f"{self.person} in {self.group_id}"


# The live grants that may be about a proposal of this tenant, agent and tool.
LIVE_GRANT_SQL = """
    SELECT FROM ledger_grant g
    WHERE g.tenant = {} AND g.agent = {} AND g.tool IN ('', {})
        AND g.ended_at IS NULL AND g.ends_at > clock_timestamp()
"""


class GrantQuerySet(models.QuerySet["Grant"]):
    def live(self) -> GrantQuerySet:
        """Those that nobody ended and whose time is not over, by the database's clock."""
        return self.filter(ended_at=None, ends_at__gt=Now())

    def about(self, tenant: str, agent: str, tool: str) -> GrantQuerySet:
        return self.filter(tenant=tenant, agent=agent, tool__in=["", tool])


class Grant(models.Model):
    """Signatures given in advance, for what an agent proposes that is as described.

    Written by ``ledger.sign_off.grants`` only. Break-glass is by two operators, ``given_by`` and
    ``confirmed_by``; any other is by one person.
    """

    tenant = models.CharField(max_length=63)
    agent = models.CharField(max_length=150, help_text="As agent:acme/helpdesk.")
    tool = models.CharField(max_length=100, blank=True, help_text="Empty: each, in an emergency.")
    when = models.JSONField(default=dict, help_text="Conditions, as those of a rule.")
    budgets = models.JSONField(default=list)
    warnings = models.JSONField(default=list, help_text="Those that its signer was shown.")
    names = models.JSONField(null=True, help_text="Of arguments; null: any.")
    tool_version = models.CharField(max_length=64, blank=True, default="")
    typed = models.BooleanField(default=False)
    is_break_glass = models.BooleanField(default=False)
    why = models.CharField(max_length=500, blank=True)
    transaction = models.ForeignKey(
        Transaction, on_delete=models.PROTECT, null=True, related_name="+"
    )
    given_by = models.CharField(max_length=150)
    given_by_name = models.CharField(max_length=200)
    confirmed_by = models.CharField(max_length=150, blank=True)
    confirmed_by_name = models.CharField(max_length=200, blank=True)
    given_at = models.DateTimeField(db_default=Now())
    ends_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    ended_by = models.CharField(max_length=150, blank=True)
    ended_by_name = models.CharField(max_length=200, blank=True)

    objects = GrantQuerySet.as_manager()

    class Meta:
        indexes = [
            models.Index(
                name="ledger_grant_live",
                fields=["tenant", "agent", "tool"],
                condition=Q(ended_at=None),
            )
        ]

    def __str__(self) -> str:
        return f"grant {self.pk} of {self.given_by_name}"

    @property
    def signers(self) -> list[tuple[str, str]]:
        """Principal and name of each."""
        second = (self.confirmed_by, self.confirmed_by_name)
        return [(self.given_by, self.given_by_name), *([second] if self.confirmed_by else [])]


class Budget(models.Model):
    """The part of one budget that is used, in one day, month or in all.

    ``used`` is written with the charges, and by a trigger when nothing came of a transaction.
    """

    tenant = models.CharField(max_length=63)
    owner = models.CharField(max_length=63, help_text="rule:<hash of its conditions>, grant:7.")
    measure = models.CharField(max_length=5, help_text="A currency (ISO 4217), or times.")
    period = models.CharField(max_length=10, blank=True, help_text="2026-11-29, 2026-11, or all.")
    used = models.DecimalField(max_digits=26, decimal_places=6)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "owner", "measure", "period"], name="ledger_budget_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.owner} {self.period}: {self.used} {self.measure}"


class Charge(models.Model):
    """The part of a budget that one transaction takes, until it is known that nothing happened."""

    budget = models.ForeignKey(Budget, on_delete=models.PROTECT, related_name="charges")
    transaction = models.ForeignKey(Transaction, on_delete=models.PROTECT, related_name="charges")
    amount = models.DecimalField(max_digits=20, decimal_places=6)
    released_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["transaction", "budget"], name="ledger_charge_once")
        ]

    def __str__(self) -> str:
        return f"{self.amount} of {self.budget_id}"
