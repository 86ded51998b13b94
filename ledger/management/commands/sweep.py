"""``manage.py sweep``: the sweeper process."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from ledger.foundation import doorbell, liveness, stopping
from ledger.foundation.postgres import sessions
from ledger.workers import Sweeper, refuse_if_unsafe

LOCK_S = 1  # a row that somebody else has locked is left for the next round


class Command(BaseCommand):
    help = "Once a second, settles whatever is due. Run two: one works, the other stands by."
    requires_system_checks: list[str] = []  # of the source: `make check` makes them

    def handle(self, *args: Any, **options: Any) -> None:
        refuse_if_unsafe("sweeper")
        sessions.bound("sweeper", lock_s=LOCK_S)
        doorbell.ring_in_background()
        liveness.show("sweeper")
        stop = stopping.on_signals()
        self.stdout.write("Sweeping once a second.")
        Sweeper().run(stop)
