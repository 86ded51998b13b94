"""Rule sets, a tenant's rules about who signs what, and groups of people who sign."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from ledger.errors import Sentence


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
