from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from ledger.models import Agent, AgentToken, Scope, Tenant


class Command(BaseCommand):
    help = "Issues a bearer token to an agent, which is made when it is new. Shown once."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--tenant", required=True)
        parser.add_argument("--agent", required=True)
        known = ", ".join(Scope.values)
        text = f"{known}, or what a skill asks for; may be given several times"
        parser.add_argument("--scope", action="append", help=text)
        text = "a tool that the tenant may use from now on, * for all; may be given several times"
        parser.add_argument("--tool", action="append", default=[], help=text)

    def handle(self, *args: Any, tenant: str, agent: str, **options: Any) -> None:
        home, _ = Tenant.objects.get_or_create(slug=tenant, defaults={"name": tenant.title()})
        if new := sorted(set(options["tool"]) - set(home.tools)):
            home.tools = [*home.tools, *new]
            home.save(update_fields=["tools"])
        owner, _ = Agent.objects.get_or_create(
            tenant=home, slug=agent, defaults={"name": agent.replace("-", " ").capitalize()}
        )
        _, token = AgentToken.issue(owner, scopes=options["scope"] or [Scope.PROPOSE])
        self.stdout.write(token)
