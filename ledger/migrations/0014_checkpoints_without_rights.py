from pathlib import Path

from django.db import migrations

SQL = Path(__file__).resolve().parent.parent / "sql" / "locks.sql"


class Migration(migrations.Migration):

    dependencies = [
        ("ledger", "0013_late_receipts_and_settlements"),
    ]

    operations = [
        migrations.RunSQL(SQL.read_text(), "DROP FUNCTION ledger_keep_writers_out()"),
    ]
