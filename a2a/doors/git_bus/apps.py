"""The Django app of the git bus: tasks over git repositories."""

from __future__ import annotations

from django.apps import AppConfig


class GitBusConfig(AppConfig):
    name = "a2a.doors.git_bus"
    label = "git_bus"
    verbose_name = "Git buses"

    def ready(self) -> None:
        from a2a import origins
        from a2a.doors.git_bus import changes
        from a2a.doors.git_bus.origins import of_task
        from ledger.events import describe_changes

        origins.register(of_task)
        describe_changes(changes.BusChange)
