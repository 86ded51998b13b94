"""``manage.py first_link``: the link to the page where the first account is made."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from approvals.people.sign_in import first_start_link


class Command(BaseCommand):
    help = "Prints a one-time link to make the first account, while there is none."

    def handle(self, *args: Any, **options: Any) -> None:
        address = first_start_link()
        if not address:
            raise CommandError("There is an account already. Invite others: manage.py invite …")
        self.stdout.write(address)
