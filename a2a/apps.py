from __future__ import annotations

from django.apps import AppConfig


class A2AConfig(AppConfig):
    name = "a2a"
    verbose_name = "A2A tasks and questions"

    def ready(self) -> None:
        from a2a import bells, checks, jobs, models, own_work, push, rounds  # noqa: F401
        from a2a.states import ARROWS
        from ledger import deliveries, histories, sweeper

        histories.families["task"] = histories.Family("task", ARROWS, models.Task)
        deliveries.register(push.PushChannel())
        sweeper.further_steps.append(rounds.sweep)
