from __future__ import annotations

from django.apps import AppConfig
from django.utils.module_loading import autodiscover_modules


class LedgerConfig(AppConfig):
    name = "ledger"

    def ready(self) -> None:
        from ledger import checks, deliveries, jobs, owners, start_checks, webhooks  # noqa: F401

        deliveries.register(webhooks.WebhookChannel())
        deliveries.register(owners.OwnerChannel())
        autodiscover_modules("tools")
