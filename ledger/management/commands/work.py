"""``manage.py work``: one RQ worker for some or all queues."""

from __future__ import annotations

import logging
import time
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser
from redis import RedisError

from ledger.database import sessions
from ledger.start_checks import refuse_if_unsafe
from ledger.workers.queues import work

logger = logging.getLogger(__name__)
LOOK_AGAIN_S = 1.0


class Command(BaseCommand):
    help = "One warm worker, for all queues or for those that are named. Run several."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--only", nargs="+", choices=list(settings.RQ_QUEUES), default=[])
        parser.add_argument("--but", nargs="+", choices=list(settings.RQ_QUEUES), default=[])

    def handle(self, *args: Any, **options: Any) -> None:
        """Works until it is told to stop; while Redis is away the sweeper carries the work."""
        refuse_if_unsafe("worker")
        sessions.bound()
        wanted = options["only"] or list(settings.RQ_QUEUES)
        names = [name for name in wanted if name not in options["but"]]
        while True:
            try:
                work(names)
                return
            except RedisError as failure:
                logger.info("Redis cannot be reached: %s", failure)
                time.sleep(LOOK_AGAIN_S)
