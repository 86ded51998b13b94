"""Issuers that say which program calls, and rules that say which agent it is."""

from __future__ import annotations

from typing import Any

from django.contrib.postgres.fields import ArrayField
from django.db import models

from ledger.models import Agent, Tenant

# In the place of an issuer's address: certificates that a trusted proxy has verified.
CERTIFICATES = "client-certificate"


class Issuer(models.Model):
    """One issuer of tokens, trusted by one tenant. Written by ``workloads.issuers`` only."""

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="+")
    issuer = models.CharField(max_length=150, help_text="Its tokens' iss, to the byte.")
    jwks_url = models.CharField(max_length=500, blank=True, help_text="Where its keys are.")
    keys = models.JSONField(default=list, help_text="Its keys themselves, in place of an address.")
    audience = models.CharField(max_length=300, blank=True, help_text="Empty: our own address.")
    algorithms = ArrayField(models.CharField(max_length=10))
    longest_minutes = models.PositiveSmallIntegerField(
        default=60, help_text="How far ahead a token may expire."
    )
    is_reusable = models.BooleanField(
        default=False, help_text="A token counts more than once, until it expires."
    )
    is_active = models.BooleanField(default=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tenant", "issuer"], name="oauth_issuer_one_per_tenant")
        ]

    def __str__(self) -> str:
        return f"{self.issuer} ({self.tenant_id})"

    @property
    def mark(self) -> str:
        """The beginning of ``issued_by`` of the tokens that it led to."""
        return f"{self.issuer}#{self.pk} "

    def as_document(self) -> dict[str, Any]:
        """All of it, as operators see and confirm it."""
        rules = self.rules.select_related("agent").order_by("pk")
        return {
            "jwks_url": self.jwks_url,
            "keys": self.keys,
            "audience": self.audience,
            "algorithms": self.algorithms,
            "longest_minutes": self.longest_minutes,
            "is_reusable": self.is_reusable,
            "is_active": self.is_active,
            "rules": [
                {"agent": rule.agent.slug, "scopes": rule.scopes, "claims": rule.claims}
                for rule in rules
            ],
        }


class IssuerRule(models.Model):
    """An issuer's token is this agent's if all of these claims are equal."""

    issuer = models.ForeignKey(Issuer, on_delete=models.CASCADE, related_name="rules")
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="+")
    claims = models.JSONField()
    scopes = ArrayField(models.CharField(max_length=120))

    def __str__(self) -> str:
        return f"{self.issuer}: {self.agent}"


class UsedAssertion(models.Model):
    """A token of an issuer that was exchanged and does not count again."""

    digest = models.CharField(max_length=64, unique=True, help_text="Of its issuer and its jti.")
    expires_at = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return self.digest
