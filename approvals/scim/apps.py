"""The Django app of SCIM: its kind of change, and the check of its settings."""

from __future__ import annotations

from django.apps import AppConfig


class ScimConfig(AppConfig):
    name = "approvals.scim"
    label = "scim"
    verbose_name = "Directory"

    def ready(self) -> None:
        from approvals.scim import changes, checks
        from ledger.events import describe_changes
        from ledger.workers import start_checks

        describe_changes(changes.DirectoryChange)
        start_checks.register_check(checks.directory)
