"""``manage.py slack_connect``: connects a workspace with a tenant, and adds a route."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from approvals.slack import setup
from approvals.slack.setup import NotConnected
from ledger.models import Tenant


class Command(BaseCommand):
    help = "Connects the workspaces of the bot tokens with a tenant, and makes the first route."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--tenant", required=True, help="Whose messages are shown there.")
        parser.add_argument("--channel", default="", help="Where they go by default: an id (C…).")
        parser.add_argument("--team", default="", help="Only this workspace (T…), of several.")

    def handle(self, *args: Any, **options: Any) -> None:
        """May be run again: what exists stays, what is new is added."""
        tenant = Tenant.objects.filter(slug=options["tenant"]).first()
        if tenant is None:
            raise CommandError(f"There is no tenant {options['tenant']}. `invite` makes one.")
        try:
            connected = setup.connect(
                tenant,
                team=options["team"],
                channel=options["channel"],
                warn=self.stderr.write,
            )
        except NotConnected as refusal:
            raise CommandError(str(refusal)) from refusal
        for workspace in connected:
            routes = workspace.routes.filter(tenant=tenant).count()
            plural = "s" if routes != 1 else ""
            self.stdout.write(
                f"{workspace} serves {tenant.slug}, with {routes} route{plural}. "
                "More routes: in the admin. Next: manage.py slack_check"
            )
