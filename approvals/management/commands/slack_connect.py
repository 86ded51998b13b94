"""``manage.py slack_connect``: connects a workspace with a tenant, and adds a route."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db.transaction import atomic
from slack_sdk.errors import SlackClientError

from approvals.models import SlackRoute, SlackWorkspace
from approvals.slack.api import workspaces
from approvals.slack.api.calls import NETWORK
from approvals.slack.api.credentials import apps
from ledger.events import account_changes
from ledger.events.account_changes import ChangeKind
from ledger.models import Tenant
from ledger.principals import Surface


class Command(BaseCommand):
    help = "Connects the workspaces of the bot tokens with a tenant, and makes the first route."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--tenant", required=True, help="Whose messages are shown there.")
        parser.add_argument("--channel", default="", help="Where they go by default: an id (C…).")
        parser.add_argument("--team", default="", help="Only this workspace (T…), of several.")

    def handle(self, *args: Any, **options: Any) -> None:
        """May run again: what is there stays, what is new is added."""
        tenant = Tenant.objects.filter(slug=options["tenant"]).first()
        if tenant is None:
            raise CommandError(f"There is no tenant {options['tenant']}. `invite` makes one.")
        if not apps():
            raise CommandError("ASSENT_SLACK_BOT_TOKEN is not set. docs/slack.md says how.")
        if len(apps()) > 1 and not options["team"]:
            raise CommandError("There are several bot tokens: say which workspace, --team T….")
        connected = list(self._connected(options["team"]))
        if not connected:
            raise CommandError("No bot token is for that workspace.")
        for workspace in connected:
            self._serve(workspace, tenant)
            self._route(workspace, tenant, options["channel"])

    def _serve(self, workspace: SlackWorkspace, tenant: Tenant) -> None:
        with atomic():
            if not workspace.tenants.filter(pk=tenant.pk).exists():
                workspace.tenants.add(tenant)
                subject = f"slack_workspace:{workspace.pk}"
                self._record(subject, ChangeKind.SLACK_WORKSPACE_CONNECTED, tenant, str(workspace))

    def _make_route(self, workspace: SlackWorkspace, tenant: Tenant, channel: str) -> None:
        with atomic():
            route, is_new = SlackRoute.objects.get_or_create(
                workspace=workspace, tenant=tenant, channel=channel
            )
            if is_new:
                self._record(
                    f"slack_route:{route.pk}", ChangeKind.SLACK_ROUTE_ADDED, tenant, str(route)
                )

    def _record(self, subject: str, kind: ChangeKind, tenant: Tenant, name: str) -> None:
        by = account_changes.command()
        account_changes.record(
            subject, kind, tenant=tenant.slug, by=by, via=Surface.COMMAND, name=name
        )

    def _connected(self, team: str) -> Any:
        for app in apps():
            try:
                workspace = workspaces.connect(app)
            except (SlackClientError, *NETWORK) as failure:
                if len(apps()) == 1:
                    raise CommandError(f"Slack refused the bot token: {failure}") from failure
                self.stderr.write(f"One bot token is left out, Slack refused it: {failure}")
                continue
            if team in {"", workspace.team_id}:
                yield workspace

    def _route(self, workspace: SlackWorkspace, tenant: Tenant, channel: str) -> None:
        if channel:
            self._make_route(workspace, tenant, channel)
        routes = workspace.routes.filter(tenant=tenant).count()
        self.stdout.write(
            f"{workspace} serves {tenant.slug}, with {routes} route{'s' if routes != 1 else ''}. "
            "More routes: in the admin. Next: manage.py slack_check"
        )
