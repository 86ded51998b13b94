"""``manage.py sweep``: the sweeper process."""

from __future__ import annotations

import signal
from threading import Event as Flag
from typing import Any

from django.core.management.base import BaseCommand

from ledger.start_checks import refuse_if_unsafe
from ledger.workers.sweeper import Sweeper


class Command(BaseCommand):
    help = "Once a second, settles whatever is due. Several may run; one works."

    def handle(self, *args: Any, **options: Any) -> None:
        refuse_if_unsafe("sweeper")
        stop = Flag()
        for name in (signal.SIGINT, signal.SIGTERM):
            signal.signal(name, lambda *_: stop.set())
        self.stdout.write("Sweeping once a second.")
        Sweeper().run(stop)
