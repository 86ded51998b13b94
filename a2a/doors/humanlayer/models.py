"""Functions of agents that Assent carries out with a tool of its own, and the calls of them."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from ledger.models.agents import Agent, Tenant


class Binding(models.Model):
    """The tool that stands in for a function. Only ``calls.bindings`` writes it."""

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

    class Meta:
        verbose_name = "function carried out here"
        verbose_name_plural = "functions carried out here"
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "agent", "function"], name="humanlayer_binding_one_per_agent"
            ),
            models.UniqueConstraint(
                fields=["tenant", "function"],
                condition=Q(agent=None),
                name="humanlayer_binding_one_for_all_agents",
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
            models.UniqueConstraint(fields=["agent", "key"], name="humanlayer_call_one_per_key")
        ]
        indexes = [
            # What the sweeper erases.
            models.Index(
                name="humanlayer_call_to_erase",
                fields=["retain_until"],
                condition=~Q(spec={}),
            )
        ]

    def __str__(self) -> str:
        return self.key
