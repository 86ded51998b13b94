from __future__ import annotations

from django.apps import AppConfig


class A2AConfig(AppConfig):
    name = "a2a"
    verbose_name = "A2A tasks and questions"

    def ready(self) -> None:
        from a2a import bells, checks, jobs, models, own_work, push, rounds  # noqa: F401
        from ledger import audit, deliveries, sweeper

        audit.subjects["task"] = models.task_states
        deliveries.register(push.PushChannel())
        sweeper.further_steps.append(rounds.sweep)
