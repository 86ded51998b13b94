"""``manage.py migrate``: Django's own, then the rights of the application's database role."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.commands import migrate

from approvals import database_roles


class Command(migrate.Command):
    help = "Updates the tables as their owner, and says what the application may do with them."

    def handle(self, *args: Any, **options: Any) -> None:
        with database_roles.as_owner():
            super().handle(*args, **options)
            if options["plan"] or options["check_unapplied"] or options["app_label"]:
                return
            database_roles.fix_search_paths()
            if role := database_roles.application_role():
                password = settings.DATABASES["default"]["PASSWORD"]
                database_roles.give_rights(role, str(password))
