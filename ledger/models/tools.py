"""Tools that are not Python: registered per tenant, each version kept; what is shown to them."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.functions import Now

from ledger.encryption import SecretField
from ledger.models.agents import Tenant


class RegisteredToolQuerySet(models.QuerySet["RegisteredTool"]):
    def held(self) -> RegisteredToolQuerySet:
        """Those that wait for an operator to look at what their owner changed."""
        return self.filter(is_withdrawn=False).exclude(held="").order_by("name")


class RegisteredTool(models.Model):
    """A tool of one tenant, and the version that agents get now."""

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="registered_tools")
    name = models.CharField(max_length=100)
    version = models.CharField(max_length=64, help_text="SHA-256 of the manifest.")
    is_withdrawn = models.BooleanField(default=False, help_text="Agents cannot propose it now.")
    held = models.TextField(
        blank=True,
        db_default="",
        help_text="Why it is held: neither proposed nor signed off; empty: it is not.",
    )
    pinned = models.CharField(
        max_length=64,
        blank=True,
        db_default="",
        help_text="SHA-256 of what its owner published when pinned.",
    )
    pinned_contract = models.JSONField(null=True)
    seen_contract = models.JSONField(null=True, help_text="As last read, where it differs.")
    read_error = models.TextField(
        blank=True, db_default="", help_text="Why it could not be read last time."
    )
    failing_since = models.DateTimeField(null=True)
    read_at = models.DateTimeField(null=True)
    read_again_at = models.DateTimeField(null=True, help_text="Empty: nothing is pinned.")

    objects = RegisteredToolQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tenant", "name"], name="ledger_tool_one_per_name")
        ]

    def __str__(self) -> str:
        return f"{self.name} of {self.tenant_id}"


class ToolVersion(models.Model):
    """A manifest, kept once and never changed: transactions name it by its hash."""

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="+")
    name = models.CharField(max_length=100)
    sha256 = models.CharField(max_length=64)
    manifest = models.JSONField()
    added_by = models.CharField(max_length=150)
    added_by_name = models.CharField(max_length=200)
    at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "name", "sha256"], name="ledger_tool_one_per_version"
            )
        ]

    def __str__(self) -> str:
        return f"{self.name} {self.sha256[:8]}"


class ToolChangeState(models.TextChoices):
    WAITING = "waiting", "waits for a second operator"
    CONFIRMED = "confirmed", "confirmed"
    DECLINED = "declined", "declined"
    OVERTAKEN = "overtaken", "replaced by a later one"


class ToolChange(models.Model):
    """A version that one operator wants to register and that another has to confirm.

    Written by ``ledger.tool_changes`` only.
    """

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="+")
    name = models.CharField(max_length=100)
    sha256 = models.CharField(max_length=64)
    manifest = models.JSONField()
    in_place_of = models.CharField(max_length=64, blank=True, help_text="Empty: there was none.")
    loosens = models.JSONField(default=list, help_text="The members that take a second operator.")
    state = models.CharField(
        max_length=10, choices=ToolChangeState, default=ToolChangeState.WAITING
    )
    asked_by = models.CharField(max_length=150)
    asked_by_name = models.CharField(max_length=200)
    ended_by = models.CharField(max_length=150, blank=True)
    ended_by_name = models.CharField(max_length=200, blank=True)
    at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "name"],
                condition=models.Q(state=ToolChangeState.WAITING),
                name="ledger_tool_one_change_waits",
            )
        ]

    def __str__(self) -> str:
        return f"{self.name} {self.sha256[:8]}"


class CredentialKind(models.TextChoices):
    HEADER = "header", "a header"
    CLIENT_CERTIFICATE = "client_certificate", "a client certificate"
    SIGNING_SECRET = "signing_secret", "a signing secret"


class Credential(models.Model):
    """What a tenant's tools elsewhere want to see besides our signature.

    Written by ``ledger.credentials`` only.
    """

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="+")
    name = models.CharField(max_length=63)
    kind = models.CharField(max_length=20, choices=CredentialKind)
    hosts = ArrayField(
        models.CharField(max_length=260), help_text="It is sent to these, and to no other host."
    )
    header = models.CharField(max_length=100, blank=True, help_text="The name of the header.")
    secret = SecretField()
    expires_at = models.DateTimeField(
        null=True, help_text="When the certificate, or the signing secret before this one, expires."
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "name"], name="ledger_credential_one_per_name"
            )
        ]

    def __str__(self) -> str:
        return f"{self.name} of {self.tenant_id}"
