"""Git buses and their requests in the admin."""

from approvals.admin.git_bus import bus_requests, buses

__all__ = ["bus_requests", "buses"]
