"""``manage.py migrate``: Django's own, then the rights of the application's database role.

A database with migrations that this code does not have is refused before anything is changed.
"""

from __future__ import annotations

import time
from typing import Any

from django.apps import apps
from django.core.management.base import CommandError
from django.core.management.commands import migrate
from django.db import OperationalError, connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from psycopg.errors import LockNotAvailable

from approvals import database_roles
from approvals.processes import EXIT_OTHER_VERSION

OUR_ROOMS = {"ledger", "a2a", "approvals"}
NAMED = 3  # unknown migrations in the refusal; a database before 0.1.0 has dozens

# A statement that waits for a lock makes everybody wait who comes after it: it waits no longer than
# pages and agents can, and is tried again.
LOCK_S = 2
TRY_AGAIN_AFTER_S = 5.0
TRIES = 60
LONG = """
    SELECT pid, usename, date_trunc('second', now() - xact_start)::text, left(query, 60)
    FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()
      AND xact_start < now() - interval '1 second'
    ORDER BY xact_start
"""


def our_labels() -> set[str]:
    """Labels of the installed apps that are the product's own."""
    configs = apps.get_app_configs()
    return {each.label for each in configs if each.name.partition(".")[0] in OUR_ROOMS}


def unknown_migrations() -> list[str]:
    """Migrations of our apps that the database has and this code does not.

    Those of an app that is left out (``ASSENT_OPTIONAL_APPS``) do not count.
    """
    code = MigrationLoader(None).disk_migrations
    known = set(code).union(*(migration.replaces for migration in code.values()))
    unknown = set(MigrationRecorder(connection).applied_migrations()) - known
    labels = our_labels()
    return sorted(f"{label}.{name}" for label, name in unknown if label in labels)


def refuse_other_version() -> None:
    """Raises ``CommandError`` for a database that was made by other code."""
    unknown = unknown_migrations()
    if not unknown:
        return
    more = f" and {len(unknown) - NAMED} more" if len(unknown) > NAMED else ""
    raise CommandError(
        "This database was made by a commit before 0.1.0 or by a newer version of Assent "
        f"(it has {', '.join(unknown[:NAMED])}{more}), and nothing in it was changed: run the "
        "version that made it, or name an empty database in DATABASE_URL.",
        returncode=EXIT_OTHER_VERSION,
    )


class Command(migrate.Command):
    help = "Updates the tables as their owner, and says what the application may do with them."

    def handle(self, *args: Any, **options: Any) -> None:
        with database_roles.as_owner():
            refuse_other_version()
            self._migrate(*args, **options)
            if options["plan"] or options["check_unapplied"] or options["app_label"]:
                return
            database_roles.fix_search_paths()
            database_roles.give_rights_to_all()

    def _migrate(self, *args: Any, **options: Any) -> None:
        """Django's ``migrate``, again where it had to wait too long for a lock."""
        for _ in range(TRIES):
            try:
                super().handle(*args, **options)
            except OperationalError as failure:
                if not isinstance(failure.__cause__, LockNotAvailable):
                    raise
                self._tell_who_is_in_the_way()
                time.sleep(TRY_AGAIN_AFTER_S)
            else:
                with connection.cursor() as cursor:
                    cursor.execute("RESET lock_timeout")
                return
        raise CommandError(
            "Somebody else held a lock on a table all the time. What was migrated before stays; "
            "nothing else was changed. End the transactions above, and migrate again."
        )

    def migration_progress_callback(
        self, action: str, migration: Any = None, fake: bool = False
    ) -> None:
        """An index that is built beside the running processes locks nobody out, and may wait."""
        if action == "apply_start":
            limit = f"{LOCK_S}s" if migration.atomic else "0"
            with connection.cursor() as cursor:
                cursor.execute("SELECT set_config('lock_timeout', %s, false)", [limit])
        super().migration_progress_callback(action, migration, fake)

    def _tell_who_is_in_the_way(self) -> None:
        self.stderr.write(
            "A table is locked by somebody else, so nothing of this migration was changed yet. "
            f"It is tried again in {TRY_AGAIN_AFTER_S:.0f} s. Long transactions at the moment:"
        )
        with connection.cursor() as cursor:
            cursor.execute(LONG)
            for pid, user, lasted, query in cursor.fetchall():
                self.stderr.write(f"  {pid} {user} for {lasted}: {' '.join(query.split())}")
