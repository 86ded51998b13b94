from __future__ import annotations

from django.apps import AppConfig
from django.utils.module_loading import autodiscover_modules


class LedgerConfig(AppConfig):
    name = "ledger"

    def ready(self) -> None:
        from ledger import checks, jobs  # noqa: F401

        autodiscover_modules("tools")
