from pathlib import Path

from django.db import migrations, models

SQL = Path(__file__).resolve().parent.parent / "sql"


class Migration(migrations.Migration):
    """A person can withdraw an approval for a few seconds; the vote stays as history."""

    dependencies = [
        ("ledger", "0013_evidence"),
    ]

    operations = [
        migrations.AddField(
            model_name="tenant",
            name="undo_seconds",
            field=models.PositiveSmallIntegerField(
                db_default=5,
                default=5,
                help_text="For so long a person can undo an approval at the desk of what is not "
                "irreversible; no worker begins before. 0: workers begin at once.",
            ),
        ),
        migrations.AddField(
            model_name="decision",
            name="is_withdrawn",
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.RunSQL((SQL / "erase_reason.sql").read_text(), migrations.RunSQL.noop),
    ]
