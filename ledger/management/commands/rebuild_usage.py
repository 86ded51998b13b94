"""``manage.py rebuild_usage``: count anew what pages say of the last days and months."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from ledger.reporting.usage import rebuild_usage


class Command(BaseCommand):
    help = (
        "Counts the whole audit log anew, for the figures of Insight and of what is usual. They "
        "count themselves; run it when a tool's contract names another subject, or after "
        "ASSENT_SECRET_KEY was changed. Pages show the old figures until it is done."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        upto = rebuild_usage()
        self.stdout.write(f"Counted up to event {upto}.")
