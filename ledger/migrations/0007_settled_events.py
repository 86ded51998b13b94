from pathlib import Path

from django.db import migrations

SQL = Path(__file__).resolve().parent.parent / "sql"


class Migration(migrations.Migration):
    """An event with an id that the database did not give is not the last settled one."""

    dependencies = [
        ("ledger", "0006_tenant_required_policy"),
    ]

    operations = [
        migrations.RunSQL((SQL / "settled_events.sql").read_text(), migrations.RunSQL.noop),
    ]
