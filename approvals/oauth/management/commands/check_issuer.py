"""``manage.py check_issuer``: says why a token of an issuer is accepted or not; gives none."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from approvals.oauth.workloads.endpoint import NotAccepted, explained


class Command(BaseCommand):
    help = "Says whether a token of an issuer is accepted, as which agent, or why it is not."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("token", nargs="?", default="-", help="the token; - reads it here")
        parser.add_argument("--agent", default="", help="tenant/agent, as client_id names it")

    def handle(self, *args: Any, token: str, agent: str, **options: Any) -> None:
        if token == "-":
            token = sys.stdin.read()
        try:
            self.stdout.write(explained(token.strip(), agent))
        except NotAccepted as refusal:
            raise CommandError(f"It is not accepted. {refusal}") from None
