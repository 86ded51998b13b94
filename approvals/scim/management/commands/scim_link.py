"""``manage.py scim_link``: has the directory keep an account that it did not make."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError
from django.db.transaction import atomic

from approvals.people import record_change
from approvals.scim.changes import DirectoryChange
from approvals.scim.models import Entry
from ledger.events import command_principal
from ledger.principals import Surface


class Command(BaseCommand):
    help = (
        "Links an account with the company's directory (SCIM), which may close it from then on, "
        "and keeps its names and groups."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="The username.")

    def handle(self, *args: Any, name: str, **options: Any) -> None:
        person = User.objects.filter(username=name).first()
        if person is None:
            raise CommandError(f"Nobody is called {name}. Nothing was linked.")
        if not person.memberships.filter(tenant=settings.SCIM_TENANT).exists():
            raise CommandError(
                f"{name} has no role in {settings.SCIM_TENANT or 'a tenant'}, which "
                "ASSENT_SCIM_TENANT names. Nothing was linked."
            )
        if Entry.objects.filter(user=person).exists():
            raise CommandError(f"The directory keeps {name} already.")
        origin: dict[str, Any] = {"by": command_principal(), "via": Surface.COMMAND}
        with atomic():
            Entry.objects.create(user=person)
            edits = {"linked": [False, True]}
            record_change(person, DirectoryChange.ENTRY_CHANGED, **origin, edits=edits)
        self.stdout.write(f"The directory keeps {name} from now on.")
