"""MCP servers that operators have registered, and the tools that these offer."""

from __future__ import annotations

from typing import Any

from django.db import models
from django.db.models.functions import Now

from ledger.models.agents import Tenant


class McpUpstream(models.Model):
    """An MCP server of one tenant. Written by ``ledger.mcp_upstreams`` only."""

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="+")
    name = models.CharField(max_length=31, help_text="Names of its tools here begin with it.")
    address = models.CharField(
        max_length=500, help_text="Of Streamable HTTP, or stdio: and a name of ASSENT_MCP_COMMANDS."
    )
    credential = models.CharField(
        max_length=63, blank=True, help_text="Name of the credential that it asks for."
    )
    revision = models.CharField(max_length=20, blank=True, help_text="Of MCP, as last spoken.")
    read_at = models.DateTimeField(null=True, help_text="When its list was last read.")
    read_again_at = models.DateTimeField(db_default=Now())
    problem = models.TextField(blank=True, help_text="Why it could not be read last time.")

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

    Written by ``ledger.mcp_upstreams`` only. Once it is held only an operator releases it again.
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
        found = self.definition.get("annotations")
        return found if isinstance(found, dict) else {}

    @property
    def differences(self) -> dict[str, list[Any]]:
        """What of its definition is not as it was released: before, and now."""
        before, now = self.released_definition or {}, self.definition
        names = sorted({*before, *now}) if before else []
        return {
            name: [before.get(name), now.get(name)]
            for name in names
            if before.get(name) != now.get(name)
        }
