"""Old processes go on working while and after `migrate` runs: migrations only ever add."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db.migrations import operations as ops
from django.db.migrations.loader import MigrationLoader
from django.db.models import NOT_PROVIDED

from approvals.management.commands.migrate import our_labels
from ledger.foundation.postgres import AddIndexConcurrently

# The old code still reads and writes what these take away or rename.
TAKES_AWAY = (ops.RemoveField, ops.RenameField, ops.DeleteModel, ops.RenameModel)


def migrations():
    loader = MigrationLoader(None)
    labels = our_labels()
    for (label, name), migration in sorted(loader.disk_migrations.items()):
        if label in labels and name != "0001_tables":
            yield f"{label}.{name}", migration


def operations(of):
    for operation in of:
        nested = getattr(operation, "database_operations", None)
        yield from operations(nested) if nested is not None else [operation]


def faults(migration) -> Iterator[str]:
    steps = list(operations(migration.operations))
    created = {step.name_lower for step in steps if isinstance(step, ops.CreateModel)}
    for step in steps:
        model = getattr(step, "model_name_lower", "")
        if model in created:
            continue  # no old code knows the table
        if isinstance(step, TAKES_AWAY):
            yield f"{step.describe()}: the old code still uses it"
        if isinstance(step, ops.AddField) and not _may_be_left_out(step.field):
            yield f"{step.describe()}: an INSERT of the old code would leave it NULL"
        if isinstance(step, ops.AlterField) and not _may_be_left_out(step.field):
            yield f"{step.describe()}: an INSERT of the old code may leave it NULL"
        if isinstance(step, ops.AddIndex) and not isinstance(step, AddIndexConcurrently):
            yield f"{step.describe()}: use AddIndexConcurrently of ledger.foundation.postgres"


def _may_be_left_out(field) -> bool:
    """Django's own ``default`` is applied in Python, so the old code does not know it."""
    return field.null or field.db_default is not NOT_PROVIDED or field.many_to_many


def test_migrations_only_add():
    found = {name: list(faults(migration)) for name, migration in migrations()}

    assert {name: what for name, what in found.items() if what} == {}


@pytest.mark.parametrize(
    "name",
    ["takes a field away", "adds a field that must be filled", "locks a table for an index"],
)
def test_the_check_notices_a_migration_that(name):
    from django.db import migrations as django_migrations, models

    step = {
        "takes a field away": ops.RemoveField("agent", "name"),
        "adds a field that must be filled": ops.AddField(
            "agent", "x", models.CharField(default="")
        ),
        "locks a table for an index": ops.AddIndex(
            "agent", models.Index(fields=["name"], name="x")
        ),
    }[name]
    migration = django_migrations.Migration("x", "ledger")
    migration.operations = [step]

    assert list(faults(migration))
