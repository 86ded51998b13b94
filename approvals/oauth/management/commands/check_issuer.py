"""``manage.py check_issuer``: why a token of an issuer is accepted or not; it gives none."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from approvals.oauth.workloads.assertions import NotAccepted, accepted
from approvals.oauth.workloads.keys import KeysAway
from approvals.oauth.workloads.tables import UsedAssertion


class Command(BaseCommand):
    help = "Says whether a token of an issuer is accepted, as which agent, or why it is not."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("token", nargs="?", default="-", help="the token; - reads it here")
        parser.add_argument("--agent", default="", help="tenant/agent, as client_id names it")

    def handle(self, *args: Any, token: str, agent: str, **options: Any) -> None:
        if token == "-":
            token = sys.stdin.read()
        try:
            acceptance = accepted(token.strip(), agent)
        except (NotAccepted, KeysAway) as refusal:
            raise CommandError(f"It is not accepted. {refusal}") from None
        used = acceptance.used
        if used and UsedAssertion.objects.filter(digest=used.digest).exists():
            raise CommandError("It is not accepted: it was used before (jti). Get a new one.")
        rule = acceptance.rule
        self.stdout.write(
            f"It is accepted, as the agent {rule.agent}, with the scopes {', '.join(rule.scopes)}."
        )
