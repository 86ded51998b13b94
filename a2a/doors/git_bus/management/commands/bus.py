"""``manage.py bus``: tasks over git repositories."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db.models.functions import Now

from a2a.doors.git_bus import listening
from a2a.doors.git_bus.models import GitBus
from a2a.doors.git_bus.turns import AT_ONCE, Turns
from ledger.foundation import doorbell, liveness, stopping
from ledger.foundation.postgres import sessions
from ledger.workers import refuse_if_unsafe


class Command(BaseCommand):
    help = "Brings git buses and tasks together: `listen` for good, `pass` once, `check` to look."
    requires_system_checks: list[str] = []  # of the source: `make check` makes them

    def add_arguments(self, parser: CommandParser) -> None:
        steps = parser.add_subparsers(dest="step", required=True)
        steps.add_parser("listen", help="a pass over each bus whenever it is due")
        for name, text in (("pass", "one pass now"), ("check", "say what is there")):
            steps.add_parser(name, help=text).add_argument("agent", help="tenant/agent of the bus")

    def handle(self, *args: Any, **options: Any) -> None:
        refuse_if_unsafe("bus")
        sessions.bound("bus", pool=AT_ONCE)
        doorbell.ring_in_background()
        if options["step"] == "listen":
            self._listen()
        elif options["step"] == "pass":
            self._pass(_bus(options["agent"]))
        else:
            for line in listening.state_of(_bus(options["agent"])):
                self.stdout.write(line)

    def _listen(self) -> None:
        liveness.show("bus")
        stop = stopping.on_signals()
        self.stdout.write("Looking once a second which bus is due.")
        Turns().run(stop)

    def _pass(self, bus: GitBus) -> None:
        GitBus.objects.filter(pk=bus.pk).update(look_at=Now())
        listening.serve(bus.pk)
        bus.refresh_from_db()
        if bus.error:
            raise CommandError(f"{bus.error} Nothing was changed that is not pushed.")
        self.stdout.write(f"At commit {bus.head[:12]}.")


def _bus(name: str) -> GitBus:
    tenant, _, slug = name.partition("/")
    bus = GitBus.objects.filter(agent__tenant=tenant, agent__slug=slug).first()
    if bus is None:
        raise CommandError(f"There is no bus of an agent {name!r}. The admin lists them.")
    return bus
