from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand
from redis import Redis
from rq import Queue, SimpleWorker

from ledger.jobs import JOBS


class WarmWorker(SimpleWorker):
    """Runs jobs in its own process: no fork, no import, no new connection per job."""

    # Redis may be gone for a while; look again soon rather than after a minute.
    max_connection_wait_time = 1.0


class Command(BaseCommand):
    help = "One warm worker for commit, roll_back, compensate and deliver. Run several."

    def handle(self, *args: Any, **options: Any) -> None:
        connection = Redis.from_url(settings.REDIS_URL)
        queues = [Queue(name, connection=connection) for name in JOBS]
        worker = WarmWorker(queues, connection=connection)
        worker.work(logging_level="WARNING", with_scheduler=False)
