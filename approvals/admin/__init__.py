"""People, tools, and operators' actions on transactions and tasks in Django's admin."""

from __future__ import annotations

from django.apps import apps

from approvals.admin import people, tasks, tools, transactions

__all__ = ["people", "tasks", "tools", "transactions"]

if apps.is_installed("a2a.doors.git_bus"):
    from approvals.admin import git_bus

    __all__ += ["git_bus"]
if apps.is_installed("a2a.doors.humanlayer"):
    from approvals.admin import bindings

    __all__ += ["bindings"]
