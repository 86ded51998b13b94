"""``manage.py issue_token``: issues a bearer token for an agent."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from ledger.agents import enrolment
from ledger.events import command_principal
from ledger.models import Scope
from ledger.principals import Surface


class Command(BaseCommand):
    help = "Issues a bearer token to an agent, which is made when it is new. Shown once."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--tenant", required=True)
        parser.add_argument("--agent", required=True)
        known = ", ".join(Scope.values)
        text = f"{known}, propose:<tool>, or what a skill asks for; may be given several times"
        parser.add_argument("--scope", action="append", help=text)
        text = "a tool that the tenant may use from now on, * for all; may be given several times"
        parser.add_argument("--tool", action="append", default=[], help=text)

    def handle(self, *args: Any, tenant: str, agent: str, **options: Any) -> None:
        author: dict[str, Any] = {"by": command_principal(), "via": Surface.COMMAND}
        home = enrolment.tenant_named(tenant, **author)
        enrolment.allow_tools(home, options["tool"], **author)
        owner = enrolment.agent_named(home, agent, **author)
        scopes = options["scope"] or [Scope.PROPOSE.value]
        _, token = enrolment.issue(owner, scopes=scopes, **author)
        self.stdout.write(token)
