"""The Django app of the MCP server at ``/mcp``."""

from __future__ import annotations

from django.apps import AppConfig


class McpServerConfig(AppConfig):
    name = "a2a.doors.mcp_server"
    label = "mcp_server"
    verbose_name = "MCP server"
    # The module with ``is_ours`` and ``application`` that ``approvals.asgi`` mounts.
    asgi = "a2a.doors.mcp_server.app"
