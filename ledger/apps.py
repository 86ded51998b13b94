"""The Django app of the ledger: connects channels, jobs and checks."""

from __future__ import annotations

from django.apps import AppConfig
from django.utils.module_loading import autodiscover_modules


class LedgerConfig(AppConfig):
    name = "ledger"

    def ready(self) -> None:
        from ledger.api import pending
        from ledger.delivery import siem
        from ledger.delivery.webhooks import channel, owners
        from ledger.events import outbox
        from ledger.foundation import doorbell
        from ledger.foundation.telemetry import tracing
        from ledger.sign_off import grants, groups
        from ledger.sign_off.rules import sets
        from ledger.tools import checks, mcp_upstreams, pinned_contracts, watched  # noqa: F401
        from ledger.tools.registrations import changes
        from ledger.workers import jobs, register_job, register_step, start_checks

        tracing.begin()
        outbox.register(channel.WebhookChannel(), only_if=channel.HAS_WEBHOOK)
        outbox.register(owners.OwnerChannel())
        start_checks.register_check(siem.terms)
        doorbell.register_bell(doorbell.wake_waiting_agents)
        doorbell.register_bell(pending.wake_supervisors)
        changes.register()
        sets.register()
        groups.register()
        grants.register()
        register_step(grants.end_expired)
        jobs.register()
        pinned_contracts.register()
        mcp_upstreams.register()
        register_job("read_published", watched.read_again, int, watched.due)
        autodiscover_modules("tools")
