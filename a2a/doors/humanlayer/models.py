"""Functions of agents that Assent carries out with a tool of its own, and the calls of them."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from ledger.models.agents import Agent, Tenant


class Binding(models.Model):
    """The tool that stands in for a function; what waits for a second operator beside it.

    Written by ``ledger.bindings`` only.
    """

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="+")
    agent = models.ForeignKey(
        Agent,
        on_delete=models.PROTECT,
        null=True,
        blank=True,
        related_name="+",
        help_text="Whose function it is; empty: that of every agent of the tenant.",
    )
    function = models.CharField(max_length=80, help_text="Its name, as its client sends it.")
    tool = models.CharField(
        max_length=100, blank=True, help_text="Empty: the agent runs the function itself."
    )
    wanted = models.CharField(  # noqa: DJ001
        max_length=100, null=True, help_text="What one operator asked for; empty text: no tool."
    )
    loosens = models.JSONField(default=list, help_text="Why that takes a second operator.")
    asked_by = models.CharField(max_length=150, blank=True)
    asked_by_name = models.CharField(max_length=200, blank=True)
    expires_at = models.DateTimeField(null=True, help_text="Until when it can be confirmed.")

    class Meta:
        verbose_name = "function carried out here"
        verbose_name_plural = "functions carried out here"
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "agent", "function"], name="ledger_binding_one_per_agent"
            ),
            models.UniqueConstraint(
                fields=["tenant", "function"],
                condition=Q(agent=None),
                name="ledger_binding_one_for_all_agents",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.function} of {self.agent.slug if self.agent else self.tenant_id}"


class BoundCall(models.Model):
    """One call of a function that a tool stood in for when it came, as its client sent it.

    Its transaction is the one of the idempotency key. Without one, ``refusal`` says why.
    """

    agent = models.CharField(max_length=150)
    key = models.CharField(max_length=255)
    tool = models.CharField(max_length=100)
    run_id = models.CharField(max_length=200, blank=True)
    spec = models.JSONField(help_text="As sent; empty once its content is erased.")
    sha256 = models.CharField(max_length=64, help_text="Of what was sent.")
    refusal = models.TextField(blank=True)
    created_at = models.DateTimeField(db_default=Now())
    retain_until = models.DateTimeField(help_text="If no transaction came of it.")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["agent", "key"], name="ledger_bound_call_one_per_key")
        ]
        indexes = [
            # What the sweeper erases.
            models.Index(
                name="ledger_bound_call_to_erase",
                fields=["retain_until"],
                condition=~Q(spec={}),
            )
        ]

    def __str__(self) -> str:
        return self.key
