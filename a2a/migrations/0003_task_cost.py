from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("a2a", "0002_task_reads_text"),
    ]

    operations = [
        migrations.AddField(
            model_name="task",
            name="cost",
            field=models.JSONField(
                help_text="What the worker says that it cost: amount and currency, or tokens.",
                null=True,
            ),
        ),
    ]
