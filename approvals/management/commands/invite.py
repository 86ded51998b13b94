"""``manage.py invite``: makes a person with a one-time link, or gives one who exists a role."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError

from approvals.models import Role
from approvals.people import accounts
from ledger.agents import enrolment
from ledger.events import command_principal
from ledger.principals import Surface


class Command(BaseCommand):
    help = (
        "Makes a person with a role in a tenant, which is made when it is new, and prints a link "
        "where they choose a password or passkey. Who exists is only given the role."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", nargs="?", help="The username.")
        parser.add_argument("--user", help="The same, by its old name.")
        parser.add_argument("--tenant", required=True)
        parser.add_argument("--role", required=True, choices=Role.values)
        parser.add_argument("--email", default="")

    def handle(self, *args: Any, tenant: str, role: str, email: str, **options: Any) -> None:
        username = options["name"] or options["user"]
        if not username:
            raise CommandError("Name the person: manage.py invite alice --tenant acme --role …")
        origin: dict[str, Any] = {"by": command_principal(), "via": Surface.COMMAND}
        person, is_new = self._person(username, email, origin)
        home = enrolment.tenant_named(tenant, **origin)
        accounts.give_role(person, tenant, role, **origin)
        self.stdout.write(f"{username} is {role} of {home.name}.")
        if is_new:  # after the role, which ends the links before it
            link = accounts.make_link(person, **origin)
            self.stdout.write(f"The link for {username}, once and within three days:\n  {link}")

    def _person(self, username: str, email: str, origin: dict[str, Any]) -> tuple[User, bool]:
        """The person, and whether they are new."""
        known = User.objects.filter(username=username).first()
        if known is not None:
            return known, False
        try:
            person = accounts.invite(username, email=email, **origin)
        except ValidationError as refusal:
            raise CommandError(" ".join(refusal.messages)) from refusal
        return person, True
