"""Tools that are not Python: registered per tenant, each version kept; what is shown to them."""

from __future__ import annotations

from typing import Any

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import OuterRef
from django.db.models.functions import Now

from ledger.foundation.crypto.encryption import SecretField
from ledger.models.agents import Tenant
from ledger.models.limits import Brake


class Watched(models.Model):
    """A document that is read again every few minutes. Written by ``ledger.tools.watched`` only.

    The row that it belongs to refers to it.
    """

    kind = models.CharField(max_length=20)
    pinned = models.JSONField(default=dict, help_text="As accepted: what its owner is held to.")
    pinned_at = models.DateTimeField(
        db_default=Now(), help_text="What was read before this counts no more."
    )
    seen = models.JSONField(default=dict, help_text="As last read.")
    held_why = models.TextField(blank=True, help_text="How it differs; empty: it does not.")
    error = models.TextField(blank=True, help_text="Why it could not be read last time.")
    failing_since = models.DateTimeField(null=True)
    read_at = models.DateTimeField(null=True)
    read_again_at = models.DateTimeField(db_default=Now())

    class Meta:
        indexes = [models.Index(name="ledger_watched_due", fields=["read_again_at"])]

    def __str__(self) -> str:
        return f"{self.kind} {self.pk}"


class RegisteredTool(models.Model):
    """A tool of one tenant, and the version that agents get now."""

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="registered_tools")
    name = models.CharField(max_length=100)
    version = models.CharField(max_length=64, help_text="SHA-256 of the manifest.")
    is_withdrawn = models.BooleanField(default=False, help_text="Agents cannot propose it now.")
    watched = models.OneToOneField(
        Watched,
        on_delete=models.SET_NULL,
        null=True,
        related_name="tool",
        help_text="The contract that its owner publishes; empty: nothing is pinned.",
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tenant", "name"], name="ledger_tool_one_per_name")
        ]

    def __str__(self) -> str:
        return f"{self.name} of {self.tenant_id}"

    @property
    def is_held(self) -> bool:
        """True until an operator has looked at what its owner changed."""
        return Brake.objects.holds_of(self.tenant_id, self.name).exists()


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


def versions_for_agents() -> models.QuerySet[ToolVersion]:
    """Of the tool of the row outside, its version, if that is of the kind `agent`."""
    return ToolVersion.objects.filter(
        tenant=OuterRef("tenant"),
        name=OuterRef("tool"),
        sha256=OuterRef("tool_version"),
        manifest__kind="agent",
    )


class SilentAddress(models.Model):
    """An address whose last calls all timed out.

    Written by ``ledger.tools.silent_addresses`` only.
    """

    IN_A_ROW = 3  # time-outs; from then on one call at a time is made

    tenant = models.CharField(max_length=63)
    address = models.CharField(max_length=300, help_text="Host and port, program, or function.")
    acts = models.BooleanField(help_text="Of calls with an effect; else plans and look-ups.")
    timeouts = models.PositiveIntegerField(db_default=1, help_text="In a row.")
    since = models.DateTimeField(db_default=Now())
    last_at = models.DateTimeField(db_default=Now())
    called_until = models.DateTimeField(
        null=True, help_text="Until then one call finds out whether it answers."
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "address", "acts"], name="ledger_silentaddress_one"
            )
        ]

    def __str__(self) -> str:
        return f"{self.address} of {self.tenant}"

    @property
    def calls(self) -> str:
        """``acting``, or ``asking`` for plans, look-ups and readings."""
        return "acting" if self.acts else "asking"


class CredentialKind(models.TextChoices):
    HEADER = "header", "a header"
    CLIENT_CERTIFICATE = "client_certificate", "a client certificate"
    SIGNING_SECRET = "signing_secret", "a signing secret"


class Credential(models.Model):
    """The credential a tenant's tools elsewhere want to see besides our signature.

    Written by ``ledger.tools.credentials`` only.
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


class McpUpstream(models.Model):
    """An MCP server of one tenant. Written by ``ledger.tools.mcp_upstreams`` only."""

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="+")
    name = models.CharField(max_length=31, help_text="Names of its tools here begin with it.")
    address = models.CharField(
        max_length=500, help_text="Of Streamable HTTP, or stdio: and a name of ASSENT_MCP_COMMANDS."
    )
    credential = models.CharField(
        max_length=63, blank=True, help_text="Name of the credential that it asks for."
    )
    revision = models.CharField(max_length=20, blank=True, help_text="Of MCP, as last spoken.")
    stderr = models.TextField(
        "standard error",
        default="",
        db_default="",
        blank=True,
        help_text="The end of it, of a program that last failed.",
    )
    watched = models.OneToOneField(
        Watched, on_delete=models.PROTECT, related_name="upstream", help_text="Its list of tools."
    )

    class Meta:
        verbose_name = "MCP server"
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "name"], name="ledger_mcp_upstream_one_per_name"
            )
        ]

    def __str__(self) -> str:
        return f"{self.name} of {self.tenant_id}"


class UpstreamToolState(models.TextChoices):
    NEW = "new", "waits for an operator"
    RELEASED = "released", "released"
    HELD = "held", "held"
    GONE = "gone", "gone from its list"


class UpstreamTool(models.Model):
    """A tool of an MCP server: as its list has it now, and as an operator released it.

    Only ``ledger.tools.mcp_upstreams`` writes it. Once it is held, an operator has to
    release it.
    """

    upstream = models.ForeignKey(McpUpstream, on_delete=models.CASCADE, related_name="tools")
    name = models.CharField(max_length=128, help_text="What the server calls it.")
    tool = models.CharField(max_length=100, blank=True, help_text="What agents call it.")
    state = models.CharField(
        max_length=10, choices=UpstreamToolState, default=UpstreamToolState.NEW
    )
    why = models.TextField(blank=True, help_text="Why it is held.")
    problem = models.TextField(blank=True, help_text="Why it cannot be offered as it is.")
    definition = models.JSONField(help_text="As its list has it now.")
    sha256 = models.CharField(max_length=64, help_text="Of the definition.")
    released_definition = models.JSONField(null=True)
    released_sha256 = models.CharField(max_length=64, blank=True)
    its_others = models.JSONField(
        default=dict, help_text="The tools that plan for it, look up or compensate, by hash."
    )
    changed_at = models.DateTimeField(db_default=Now())

    class Meta:
        verbose_name = "tool of an MCP server"
        verbose_name_plural = "tools of MCP servers"
        constraints = [
            models.UniqueConstraint(
                fields=["upstream", "name"], name="ledger_upstream_tool_one_per_name"
            )
        ]

    def __str__(self) -> str:
        return f"{self.name} of {self.upstream_id}"

    @property
    def hints(self) -> dict[str, Any]:
        """Its annotations: the server's own word, which decides nothing."""
        hints = self.definition.get("annotations")
        return hints if isinstance(hints, dict) else {}

    @property
    def differences(self) -> dict[str, list[Any]]:
        """Parts of its definition that are not as they were released: before, and now."""
        before, now = self.released_definition or {}, self.definition
        names = sorted({*before, *now}) if before else []
        return {
            name: [before.get(name), now.get(name)]
            for name in names
            if before.get(name) != now.get(name)
        }
