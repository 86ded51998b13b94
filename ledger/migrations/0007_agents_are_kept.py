from pathlib import Path

from django.db import migrations

SQL = Path(__file__).resolve().parent.parent / "sql" / "agents.sql"


class Migration(migrations.Migration):
    """The tenant and slug of an agent never change, and no agent is deleted."""

    dependencies = [("ledger", "0006_failures_of_deliveries_are_counted")]
    operations = [migrations.RunSQL(SQL.read_text(), migrations.RunSQL.noop)]
