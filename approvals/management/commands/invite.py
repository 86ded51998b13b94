"""``manage.py invite``: gives a person a role in a tenant."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError

from approvals.models import Role
from approvals.people import accounts
from ledger.agents import enrolment
from ledger.events import account_changes
from ledger.principals import Surface


class Command(BaseCommand):
    help = "Gives a person a role in a tenant, which is made when it is new."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--tenant", required=True)
        parser.add_argument("--user", required=True)
        parser.add_argument("--role", required=True, choices=Role.values)

    def handle(self, *args: Any, tenant: str, user: str, role: str, **options: Any) -> None:
        person = User.objects.filter(username=user).first()
        if person is None:
            raise CommandError(
                f"There is no user {user}. Make one: manage.py createsuperuser, or in the admin."
            )
        origin: dict[str, Any] = {"by": account_changes.command(), "via": Surface.COMMAND}
        home = enrolment.tenant_named(tenant, **origin)
        accounts.give_role(person, tenant, role, **origin)
        self.stdout.write(f"{user} is {role} of {home.name}.")
