from pathlib import Path

from django.db import migrations

SQL = Path(__file__).resolve().parent.parent / "sql"


class Migration(migrations.Migration):
    """The terms of a transaction are a set: none is tested and written twice when it ends."""

    dependencies = [
        ("ledger", "0002_keeper_may_sign"),
    ]

    operations = [
        migrations.RunSQL((SQL / "search_terms.sql").read_text(), migrations.RunSQL.noop),
    ]
