"""The Django app of the task hub: connects channels, jobs, sweeper steps and checks."""

from __future__ import annotations

from django.apps import AppConfig


class A2AConfig(AppConfig):
    name = "a2a"
    verbose_name = "A2A tasks and questions"

    def ready(self) -> None:
        from a2a import checks, jobs, models, remote, sweep  # noqa: F401
        from a2a.builtin import runs
        from a2a.protocol import push
        from a2a.rest.doorbell import wake_workers
        from a2a.states import BY_KIND, TaskEventKind
        from a2a.tasks.records import decision_records, sealed_content, stored_content
        from ledger.events import outbox
        from ledger.foundation import doorbell
        from ledger.proof.archive import register_source
        from ledger.proof.audit import Family, Standing, register_family
        from ledger.workers import register_step

        register_family(
            Family(
                "task",
                BY_KIND,
                models.Task,
                Standing,
                sealed_content.CONTENT,
                stored_content.contents,
            )
        )
        register_source(frozenset({TaskEventKind.ANSWERED}), decision_records.of_answered)
        outbox.register(push.PushChannel())
        doorbell.register_bell(wake_workers)
        doorbell.register_listener(runs.follow_event)
        remote.register_kind()
        jobs.register()
        register_step(sweep.sweep)
