import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    """Who approves fast several times in a row types what the next one is."""

    dependencies = [
        ("approvals", "0001_tables"),
        ("auth", "0012_alter_user_first_name_max_length"),
    ]

    operations = [
        migrations.CreateModel(
            name="Pace",
            fields=[
                (
                    "user",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="pace",
                        serialize=False,
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "fast_in_a_row",
                    models.PositiveSmallIntegerField(
                        default=0, help_text="Approvals shortly after the item was opened."
                    ),
                ),
            ],
        ),
    ]
