"""The Django app of the ledger: connects channels, jobs and checks."""

from __future__ import annotations

from django.apps import AppConfig
from django.utils.module_loading import autodiscover_modules


class LedgerConfig(AppConfig):
    name = "ledger"

    def ready(self) -> None:
        from ledger import checks, doorbell, mcp_upstreams, pins, start_checks  # noqa: F401
        from ledger.api import pending
        from ledger.events import outbox
        from ledger.webhooks import channel, owners
        from ledger.workers import jobs, sweeper

        outbox.register(channel.WebhookChannel())
        outbox.register(owners.OwnerChannel())
        doorbell.register_bell(doorbell.wake_waiting_agents)
        doorbell.register_bell(pending.wake_supervisors)
        jobs.register()
        sweeper.register_job("read_mcp", jobs.read_mcp, mcp_upstreams.due)
        sweeper.register_job("read_contract", jobs.read_contract, pins.due)
        autodiscover_modules("tools")
