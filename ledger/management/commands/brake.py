"""``manage.py brake``: stop an agent, a tool, a tenant or everything, and let it go on."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from ledger.errors import LedgerError
from ledger.events import brakes, command_principal
from ledger.events.brakes import Scope
from ledger.models import Agent, Brake, Tenant, Transaction
from ledger.principals import Principal, Surface
from ledger.tools import tools_of


class Command(BaseCommand):
    help = "Stops what agents do, and lets it go on; without a tenant, the whole installation."

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        put = verbs.add_parser("put", help="Stop it.")
        put.add_argument("--tenant", default="", help="Without one: in all tenants.")
        put.add_argument("--agent", default="", help="As agent:acme/helpdesk.")
        put.add_argument("--tool", default="")
        put.add_argument("--why", required=True, help="Everybody who is stopped reads it.")
        put.add_argument("--minutes", type=int, help="Without it: until it is lifted.")
        put.add_argument(
            "--keep", action="store_true", help="Keep what agents propose meanwhile; it waits."
        )
        lift = verbs.add_parser("lift", help="Let it go on.")
        lift.add_argument("number", type=int, help="As `brake list` shows it.")
        verbs.add_parser("list", help="What stands still now.")

    def handle(self, *args: Any, verb: str, **options: Any) -> None:
        try:
            verbs: dict[str, Callable[..., None]]
            verbs = {"put": self._put, "lift": self._lift, "list": self._list}
            verbs[verb](**options)
        except LedgerError as refusal:
            raise CommandError(str(refusal.detail)) from None

    def _put(
        self,
        tenant: str,
        agent: str,
        tool: str,
        why: str,
        minutes: int | None,
        keep: bool,
        **_: Any,
    ) -> None:
        if tenant and not Tenant.objects.filter(pk=tenant).exists():
            raise CommandError(f"There is no tenant {tenant}.")
        slug = Principal.parse(agent).slug
        if agent and not Agent.objects.filter(tenant=tenant, slug=slug).exists():
            raise CommandError(f"There is no {agent} in the tenant {tenant or '(none)'}.")
        if tool and not _is_known(tool, tenant):
            raise CommandError(f"There is no tool {tool} in {tenant or 'any tenant'}.")
        lasts = None if minutes is None else timedelta(minutes=minutes)
        origin: dict[str, Any] = {"by": command_principal(), "via": Surface.COMMAND}
        done = brakes.put(Scope(tenant, agent, tool), why, lasts=lasts, keeps=keep, **origin)
        self.stdout.write(_line(done.brake))
        if not done.is_waited_for:
            self.stderr.write(
                "It stands. One worker that was claiming has not answered: what it claims may "
                "still begin."
            )

    def _lift(self, number: int, **_: Any) -> None:
        brakes.lift(number, by=command_principal(), via=Surface.COMMAND)
        self.stdout.write(f"{number} is lifted.")

    def _list(self, **_: Any) -> None:
        for brake in Brake.objects.uncounted().standing().order_by("pk"):
            self.stdout.write(_line(brake))


def _is_known(tool: str, tenant: str) -> bool:
    """Also one that is not here any more, and has been used."""
    tenants = [tenant] if tenant else [*Tenant.objects.values_list("pk", flat=True)]
    used = Transaction.objects.filter(tenant__in=tenants, tool=tool)
    return tool in tools_of(tenants) or used.exists()


def _line(brake: Brake) -> str:
    until = f" until {brake.until:%Y-%m-%d %H:%M} UTC" if brake.until else ""
    since = f"since {brake.at:%Y-%m-%d %H:%M} UTC"
    kept = ", proposals are kept" if brake.keeps else ""
    return f"{brake.pk}  {brake}  {since}{until}{kept}, {brake.by_name}: {brake.why}"
