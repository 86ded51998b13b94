"""``manage.py account``: lets a person into the admin or closes an account, recorded."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError
from django.db.transaction import atomic

from approvals.people import accounts
from ledger.events import command_principal
from ledger.principals import Surface

CHANGES = {
    "admin": "let them look through the ledger admin",
    "no-admin": "shut them out of it",
    "superuser": "make them a superuser, who sees all tenants",
    "no-superuser": "end that",
    "close": "close the account: nobody can sign in with it",
    "open": "open it again",
}


class Command(BaseCommand):
    help = "Changes the rights of an account beyond the roles that operators give in Settings."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="The username.")
        change = parser.add_mutually_exclusive_group(required=True)
        for name, text in CHANGES.items():
            change.add_argument(
                f"--{name}", dest="change", action="store_const", const=name, help=text
            )

    def handle(self, *args: Any, name: str, change: str, **options: Any) -> None:
        person = User.objects.filter(username=name).first()
        if person is None:
            raise CommandError(f"There is no account named {name}.")
        with atomic():
            _apply(person, change)
        self.stdout.write(f"{name}: done, and sealed in the log.")


def _apply(person: User, change: str) -> None:
    origin: dict[str, Any] = {"by": command_principal(), "via": Surface.COMMAND}
    match change:
        case "admin":
            accounts.let_into_admin(person, **origin)
        case "no-admin":
            accounts.set_flag(person, "is_staff", False, **origin)
            accounts.set_permissions(person, [], **origin)
        case "superuser" | "no-superuser":
            accounts.set_flag(person, "is_superuser", change == "superuser", **origin)
        case _:
            accounts.set_flag(person, "is_active", change == "open", **origin)
