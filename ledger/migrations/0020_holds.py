import json
from uuid import UUID, uuid5

from django.db import migrations, models

# As in ledger/events/account_changes.py.
NAMESPACE = UUID("0f1d2c5e-6a43-5a0c-9a58-7f6d1f1b9f3e")
BY, BY_NAME = "system:pins", "the check of what owners publish"


def put_brakes(apps, schema_editor):
    """Each tool that is held is under a brake from now on, whose event the database seals."""
    held = "SELECT tenant_id, name, left(held, 500) FROM ledger_registeredtool WHERE held <> ''"
    with schema_editor.connection.cursor() as cursor:
        cursor.execute(held)
        tools = cursor.fetchall()
    for tenant, tool, why in tools:
        put_brake(apps, tenant, tool, why)


def put_brake(apps, tenant, tool, why):
    brake = apps.get_model("ledger", "Brake").objects.create(
        tenant=tenant, tool=tool, why=why, by=BY, by_name=BY_NAME, is_hold=True
    )
    brake.refresh_from_db()
    subject = f"brake:{brake.pk}"
    details = {
        "at": str(round(brake.at.timestamp() * 1_000_000)),
        "is_hold": True,
        "name": f"{tenant} {tool}",
        "subject": subject,
        "tool": tool,
    }
    apps.get_model("ledger", "Event").objects.create(
        subject=uuid5(NAMESPACE, subject),
        tenant=tenant,
        kind="brake_put",
        to_state="",
        principal=BY,
        principal_name=BY_NAME,
        via="system",
        reason=why,
        details=json.dumps(details, ensure_ascii=False, separators=(",", ":"), sort_keys=True),
    )


class Migration(migrations.Migration):
    """The hold of a tool is a brake. The column stays while old processes read it."""

    dependencies = [
        ('ledger', '0019_open_seats'),
    ]

    operations = [
        migrations.AddField(
            model_name='brake',
            name='is_hold',
            field=models.BooleanField(db_default=False, default=False, help_text="What the tool's owner publishes has changed: it ends where that is accepted."),
        ),
        migrations.AddConstraint(
            model_name='brake',
            constraint=models.CheckConstraint(condition=models.Q(('is_hold', False), models.Q(('agent', ''), ('until', None), models.Q(('tenant', ''), _negated=True), models.Q(('tool', ''), _negated=True)), _connector='OR'), name='ledger_brake_hold_is_of_one_tool'),
        ),
        migrations.AddConstraint(
            model_name='brake',
            constraint=models.UniqueConstraint(condition=models.Q(('is_hold', True), ('lifted_at', None)), fields=('tenant', 'tool'), name='ledger_brake_one_hold_of_a_tool'),
        ),
        migrations.RunPython(put_brakes, migrations.RunPython.noop),
        migrations.SeparateDatabaseAndState(
            state_operations=[migrations.RemoveField(model_name='registeredtool', name='held')],
        ),
    ]
