"""``manage.py slack_listen``: the process that keeps Socket Mode connected."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from approvals.slack import socket_mode
from ledger.foundation import doorbell, liveness, stopping
from ledger.foundation.postgres import sessions
from ledger.workers import refuse_if_unsafe


class Command(BaseCommand):
    help = "Listens to Slack through Socket Mode, where there is no public address."
    requires_system_checks: list[str] = []  # of the source: `make check` makes them

    def handle(self, *args: Any, **options: Any) -> None:
        refuse_if_unsafe("slack")
        if not settings.SLACK_APP_TOKENS:
            raise CommandError(
                "Socket Mode needs ASSENT_SLACK_APP_TOKEN, an app-level token (xapp-…) with the "
                "scope connections:write. docs/slack.md says where to make it."
            )
        sessions.bound("slack")
        doorbell.ring_in_background()
        liveness.show("slack")
        stop = stopping.on_signals()
        socket_mode.listen(stop)
