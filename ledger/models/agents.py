"""Tenants, their agents and the agents' tokens, and the services that own tools."""

from __future__ import annotations

import hashlib
import secrets
from functools import cache
from typing import Any

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import CharField, F, IntegerField, OuterRef, Q, Subquery, Value
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast, Coalesce, Concat, Now

from ledger.foundation.crypto.encryption import SecretField
from ledger.principals import Principal, agent

ALL_TOOLS = "*"


def _all_tools() -> list[str]:
    return [ALL_TOOLS]


class Tenant(models.Model):
    """A tenant: no query crosses its boundary. Other rows refer to it by its slug."""

    slug = models.SlugField(primary_key=True, max_length=63)
    name = models.CharField(max_length=200)
    tools = ArrayField(
        models.CharField(max_length=100),
        default=list,
        blank=True,
        help_text="Tools that its agents may use, with commas between; * for all. None at first.",
    )

    own_agent_tools = ArrayField(
        models.CharField(max_length=100),
        default=list,
        blank=True,
        db_default=[],
        help_text="Tools of an agent that a person makes by signing in with a program; * for all "
        "of the tenant's. None: people make no agents.",
    )
    limits = models.JSONField(
        default=dict, blank=True, db_default={}, help_text="Limits other than the default."
    )
    demands_sender = models.BooleanField(
        default=False,
        db_default=False,
        help_text="Requests of agents to its skills name their sender and their time.",
    )
    demands_scopes = models.BooleanField(
        default=False,
        db_default=False,
        help_text="A request of an agent lends its skills only the scopes that it names.",
    )
    required_policy = models.CharField(
        max_length=64,
        blank=True,
        default="",
        db_default="",
        editable=False,
        help_text="The document that supervisors cite where a contract names none.",
    )
    rule_set = models.PositiveIntegerField(
        default=0, db_default=0, editable=False, help_text="Number of its active rules; 0: none."
    )
    time_zone = models.CharField(
        max_length=64,
        default="UTC",
        db_default="UTC",
        help_text="In which days and months of budgets begin.",
    )
    signing_key_hours = models.PositiveSmallIntegerField(
        default=24,
        db_default=24,
        help_text="So many hours after a passkey was let sign decisions it may do so. Its person "
        "is told at once.",
    )
    fast_approvals = models.PositiveSmallIntegerField(
        default=5,
        db_default=5,
        help_text="After so many approvals in a row, each within two seconds of opening the item, "
        "a person types the amount of the next one. 0: never.",
    )
    undo_seconds = models.PositiveSmallIntegerField(
        default=5,
        db_default=5,
        help_text="For so long a person can undo an approval at the desk of what is not "
        "irreversible; no worker begins before. 0: workers begin at once.",
    )

    def __str__(self) -> str:
        return self.name


def tenants_with_other_rules() -> models.QuerySet[Tenant]:
    """The tenant of the row outside, if other rules are active there than those that judged it."""
    number = Coalesce(Cast(KeyTextTransform("set", OuterRef("terms")), IntegerField()), 0)
    return Tenant.objects.filter(slug=OuterRef("tenant")).exclude(rule_set=number)


class Agent(models.Model):
    """A program that proposes transactions."""

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="agents")
    slug = models.SlugField(max_length=63)
    name = models.CharField(max_length=200)
    is_active = models.BooleanField(default=True)
    tools = ArrayField(
        models.CharField(max_length=100),
        default=_all_tools,
        blank=True,
        help_text="Of its tenant's tools those that it may use, with commas between; * for all.",
    )
    webhook_url = models.URLField(
        blank=True, help_text="Told when one of the agent's transactions is decided or ends."
    )
    webhook_secret = SecretField(
        blank=True, help_text="Signs webhooks (Standard Webhooks); made on save."
    )
    webhook_form = models.CharField(
        max_length=20,
        blank=True,
        default="",
        db_default="",
        help_text="What it says of calls and questions of clients with a form of their own.",
    )
    limits = models.JSONField(
        default=dict, blank=True, db_default={}, help_text="Limits other than the tenant's default."
    )
    kept_by = models.CharField(
        max_length=150,
        blank=True,
        default="",
        db_default="",
        help_text="The person who runs it, as user:7. Agents of one keeper have one vote together, "
        "and so have all agents without one.",
    )
    review_percent = models.PositiveSmallIntegerField(
        default=10,
        db_default=10,
        help_text="Of its decisions as a supervisor, how many in a hundred people review.",
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tenant", "slug"], name="ledger_agent_one_per_slug"),
            models.CheckConstraint(
                name="ledger_agent_review_is_a_percentage", condition=Q(review_percent__lte=100)
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.tenant_id}/{self.slug})"

    @property
    def principal(self) -> Principal:
        return agent(self.tenant_id, self.slug, self.name)


class Scope(models.TextChoices):
    PROPOSE = "propose", "propose, read and cancel its own transactions"
    READ_ALL = "read_all", "read every transaction of its tenant"
    DECIDE = "decide", "decide where a contract asks for a supervisor"
    SUBMIT = "submit", "submit tasks, follow, answer and cancel its own"
    WORK = "work", "do the tasks of its own skills"


class AgentTokenQuerySet(models.QuerySet["AgentToken"]):
    def usable(self) -> AgentTokenQuerySet:
        """Tokens that authenticate: not revoked, not expired, and their agent is active.

        One that a person's sign-in gave needs that person's account, too.
        """
        is_current = Q(expires_at=None) | Q(expires_at__gt=Now())
        has_account = Q(person=None) | Q(person__is_active=True)
        return self.filter(is_current, has_account, revoked_at=None, agent__is_active=True)


@cache
def usable_tokens_sql() -> str:
    """``AgentToken.objects.usable()`` as a SELECT, to be embedded in SQL of the hot path.

    Authentication runs for every request, and building the query anew each time would cost more
    than running it. The columns are ``token_hash, tenant, slug, name, scopes, default_skill,
    resource, tenant_tools, agent_tools, rule_set``; there are no parameters. A token that a person
    got needs that they still keep the agent.
    """
    rows = AgentToken.objects.usable().values(
        "token_hash",
        "scopes",
        "default_skill",
        "resource",
        tenant=F("agent__tenant_id"),
        slug=F("agent__slug"),
        name=F("agent__name"),
        tenant_tools=F("agent__tenant__tools"),
        agent_tools=F("agent__tools"),
        rule_set=F("agent__tenant__rule_set"),
        got_by=F("person_id"),
        kept_by=F("agent__kept_by"),
    )
    sql, parameters = rows.query.sql_with_params()
    if parameters:
        raise TypeError(f"usable() must compile to SQL without parameters, has {parameters}.")
    return f"SELECT * FROM ({sql}) AS t WHERE got_by IS NULL OR kept_by = 'user:' || got_by"


def _default_scopes() -> list[str]:
    return [Scope.PROPOSE.value]


class AgentToken(models.Model):
    """A bearer token: shown once, stored as SHA-256 (it has 256 random bits of its own)."""

    PREFIX = "assent_"

    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="tokens")
    hint = models.CharField(max_length=16, help_text="The first characters, to tell tokens apart.")
    token_hash = models.CharField(max_length=64, unique=True)
    # Those of ``Scope``, ``propose:<tool>``, and what skills ask for besides.
    scopes = ArrayField(models.CharField(max_length=120), default=_default_scopes)
    default_skill = models.SlugField(
        max_length=100,
        blank=True,
        db_default="",
        help_text="Id of the skill that a message is for which names none, as plain text does.",
    )
    created_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    issued_by = models.CharField(max_length=200, null=True)  # noqa: DJ001
    resource = models.CharField(
        max_length=20,
        blank=True,
        default="",
        db_default="",
        help_text="The only interface that it opens, as mcp; empty: all of them.",
    )
    person = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.CASCADE,
        null=True,
        blank=True,
        related_name="+",
        help_text="Whose sign-in gave it: it ends with their account, and once somebody else "
        "keeps the agent.",
    )
    is_temporary = models.BooleanField(
        default=False,
        db_default=False,
        help_text="Given for minutes, by the token endpoint; forgotten once it has expired.",
    )
    last_used_at = models.DateTimeField("last used", null=True)  # to the hour

    objects = AgentTokenQuerySet.as_manager()

    def __str__(self) -> str:
        return f"{self.hint}…"

    @classmethod
    def issue(
        cls, owner: Agent, *, scopes: list[str], token: str = "", **columns: Any
    ) -> tuple[AgentToken, str]:
        """A new row, and the token in clear, which is never to be seen again.

        The token is a new one, or ``token``, which somebody else made in the same way.
        """
        token = token or cls.new()
        row = cls.objects.create(
            agent=owner, hint=token[:12], token_hash=cls.hash_of(token), scopes=scopes, **columns
        )
        return row, token

    @classmethod
    def new(cls) -> str:
        return cls.PREFIX + secrets.token_urlsafe(32)

    @staticmethod
    def hash_of(token: str) -> str:
        return hashlib.sha256(token.encode()).hexdigest()


class Owner(models.Model):
    """One owning service in one tenant: the ``owner_service`` of contracts, and its webhook."""

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="owners")
    service = models.CharField(max_length=100, help_text="The owner_service of its contracts.")
    webhook_url = models.URLField(
        help_text="Told when one of its transactions is in doubt, fails, gets stuck or is late."
    )
    webhook_secret = SecretField(
        blank=True, help_text="Signs webhooks (Standard Webhooks); made on save."
    )

    class Meta:
        app_label = "ledger"
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "service"], name="ledger_owner_one_per_service"
            )
        ]

    def __str__(self) -> str:
        return f"{self.service} ({self.tenant_id})"


def principals_kept_by(keeper: Value | Subquery) -> models.QuerySet[Agent, Any]:
    """A subquery of the agents that this person keeps, as principals; if it is empty, of all that
    somebody keeps: it may be the same person."""
    slug = Concat(Value("agent:"), "tenant_id", Value("/"), "slug", output_field=CharField())
    asked = Agent.objects.alias(keeper=keeper).exclude(kept_by="")
    kept = asked.filter(Q(kept_by=F("keeper")) | Q(keeper=""))
    return kept.annotate(as_principal=slug).values("as_principal")
