from pathlib import Path

from django.db import migrations

SQL = Path(__file__).resolve().parent.parent / "sql"


class Migration(migrations.Migration):
    """What was asked and answered, and what came of a task, is never changed but by retention."""

    dependencies = [
        ("a2a", "0003_task_cost"),
    ]

    operations = [
        migrations.RunSQL((SQL / "content_stays.sql").read_text(), migrations.RunSQL.noop),
    ]
