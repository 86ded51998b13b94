from pathlib import Path

from django.db import migrations

SQL = Path(__file__).resolve().parent.parent / "sql" / "events.sql"


class Migration(migrations.Migration):
    """Events are sealed by the database and only ever appended to."""

    dependencies = [("ledger", "0001_ledger")]
    operations = [migrations.RunSQL(SQL.read_text(), migrations.RunSQL.noop)]
