"""Requests of git buses in the admin."""

from approvals.admin.git_bus import bus_requests

__all__ = ["bus_requests"]
