import django.contrib.postgres.fields
from django.db import migrations, models


class Migration(migrations.Migration):
    """How many requests of an agent came in each hour of a day, to notice bursts."""

    dependencies = [
        ("ledger", "0011_changes_made_alone"),
    ]

    operations = [
        migrations.AddField(
            model_name="usageday",
            name="hours",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.PositiveIntegerField(), null=True, size=None
            ),
        ),
    ]
