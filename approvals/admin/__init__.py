"""Operators' actions on transactions and tasks in Django's admin."""

from __future__ import annotations

from importlib import import_module

from django.apps import apps
from django.contrib import admin
from django.contrib.auth.models import Group, User

from approvals.admin import tasks, transactions

__all__ = ["tasks", "transactions"]

# People are kept in Settings, and rights are given to each, sealed.
import_module("django.contrib.auth.admin")  # registers them, perhaps later than this
admin.site.unregister([User, Group])

if apps.is_installed("a2a.doors.git_bus"):
    from approvals.admin import git_bus

    __all__ += ["git_bus"]
