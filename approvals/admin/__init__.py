"""People, Slack, and operators' actions on transactions and tasks in Django's admin."""

from __future__ import annotations

from approvals.admin import people, slack, tasks, transactions

__all__ = ["people", "slack", "tasks", "transactions"]
