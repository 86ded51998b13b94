from pathlib import Path

from django.conf import settings
from django.db import migrations, models

SQL = Path(__file__).resolve().parent.parent / "sql" / "user_names.sql"


class Migration(migrations.Migration):
    """A user name is never given to somebody else."""

    dependencies = [
        ("approvals", "0002_slack"),
        ("auth", "0012_alter_user_first_name_max_length"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]
    operations = [
        migrations.CreateModel(
            name="UserName",
            fields=[
                (
                    "name",
                    models.CharField(
                        help_text="In small letters.",
                        max_length=150,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("user_id", models.PositiveIntegerField()),
            ],
        ),
        migrations.RunSQL(SQL.read_text(), migrations.RunSQL.noop),
    ]
