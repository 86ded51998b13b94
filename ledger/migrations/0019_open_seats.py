from pathlib import Path

import django.contrib.postgres.fields
from django.db import migrations, models

SQL = Path(__file__).resolve().parent.parent / "sql"


class Migration(migrations.Migration):
    """The inbox knows whose seats are open, also where others may sign later."""

    dependencies = [
        ('ledger', '0018_brakes'),
    ]

    operations = [
        migrations.AddField(
            model_name='transaction',
            name='open_seats',
            field=django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=63), null=True, size=None),
        ),
        migrations.RunSQL((SQL / "seats.sql").read_text(), migrations.RunSQL.noop),
    ]
