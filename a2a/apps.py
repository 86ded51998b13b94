"""The Django app of the task hub: connects channels, jobs, sweeper steps and checks."""

from __future__ import annotations

from django.apps import AppConfig


class A2AConfig(AppConfig):
    name = "a2a"
    verbose_name = "A2A tasks and questions"

    def ready(self) -> None:
        from a2a import checks, jobs, models, sweep  # noqa: F401
        from a2a.builtin import runs
        from a2a.humanlayer import webhooks
        from a2a.protocol import push
        from a2a.rest.doorbell import wake_workers
        from a2a.states import BY_KIND
        from a2a.tasks import sealed_content
        from ledger import doorbell
        from ledger.audit import histories
        from ledger.events import outbox
        from ledger.webhooks import channel
        from ledger.workers import sweeper

        histories.register_family(
            histories.Family(
                "task", BY_KIND, models.Task, histories.Standing, sealed_content.CONTENT
            )
        )
        outbox.register(push.PushChannel())
        outbox.register(webhooks.ContactChannel())
        channel.forms.append(webhooks.CallForm())
        doorbell.register_bell(wake_workers)
        doorbell.register_listener(runs.follow_event)
        jobs.register()
        sweeper.register_step(sweep.sweep)
