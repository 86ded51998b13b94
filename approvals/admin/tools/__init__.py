"""Registered tools, their credentials and upstreams in the admin."""

from approvals.admin.tools import credentials, tools, upstream_tools

__all__ = ["credentials", "tools", "upstream_tools"]
