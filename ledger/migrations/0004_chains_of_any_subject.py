from pathlib import Path

import django.contrib.postgres.fields
import django.db.models.deletion
import ledger.models.agents
from django.db import migrations, models

SQL = Path(__file__).resolve().parent.parent / "sql" / "chains.sql"
# The events stay as they were sealed: only the new column is filled in.
FILL_IN = """
    ALTER TABLE ledger_event DISABLE TRIGGER ledger_event_append_only;
    UPDATE ledger_event SET subject = transaction_id;
    ALTER TABLE ledger_event ENABLE TRIGGER ledger_event_append_only;
"""


class Migration(migrations.Migration):
    """One audit log for transactions and for tasks: a chain belongs to a subject."""

    dependencies = [("ledger", "0003_operators_filter")]
    operations = [
        migrations.AddField("event", "subject", models.UUIDField(null=True)),
        migrations.RunSQL(FILL_IN, migrations.RunSQL.noop),
        migrations.RunSQL("SET CONSTRAINTS ALL IMMEDIATE", migrations.RunSQL.noop),
        migrations.AlterField("event", "subject", models.UUIDField()),
        migrations.AlterField(
            "event",
            "transaction",
            models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="events",
                to="ledger.transaction",
            ),
        ),
        migrations.RemoveConstraint("event", "ledger_event_one_per_place_in_chain"),
        migrations.AddConstraint(
            "event",
            models.UniqueConstraint(
                fields=["subject", "seq"], name="ledger_event_one_place_in_chain"
            ),
        ),
        migrations.AddConstraint(
            "event",
            models.CheckConstraint(
                condition=models.Q(("transaction", None))
                | models.Q(("transaction", models.F("subject"))),
                name="ledger_event_transaction_is_subject",
            ),
        ),
        migrations.RunSQL(SQL.read_text(), migrations.RunSQL.noop),
        migrations.AlterField(
            "agenttoken",
            "scopes",
            django.contrib.postgres.fields.ArrayField(
                base_field=models.CharField(max_length=50),
                default=ledger.models.agents._default_scopes,
                size=None,
            ),
        ),
    ]
