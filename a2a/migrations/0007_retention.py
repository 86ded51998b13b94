from django.db import migrations, models


class Migration(migrations.Migration):
    """The content of tasks is erased when its retention is over."""

    dependencies = [("a2a", "0006_mirrors_are_held"), ("ledger", "0018_retention")]
    operations = [
        migrations.AddField(
            "skill",
            "retention",
            models.DurationField(
                blank=True,
                help_text="How long the content of a task is kept. Empty: "
                "ASSENT_TASK_RETENTION_DAYS.",
                null=True,
            ),
        ),
        migrations.AddField("task", "content_erased_at", models.DateTimeField(null=True)),
        migrations.AddField(
            "task",
            "legal_hold_at",
            models.DateTimeField(help_text="An operator keeps the content.", null=True),
        ),
        migrations.AddField(
            "task",
            "retain_until",
            models.DateTimeField(help_text="From then on the content is erased.", null=True),
        ),
        migrations.AddIndex(
            "task",
            models.Index(
                condition=models.Q(
                    ("content_erased_at", None),
                    ("ended_at__isnull", False),
                    ("legal_hold_at", None),
                ),
                fields=["retain_until"],
                name="a2a_task_retention",
            ),
        ),
        migrations.AddIndex(
            "task",
            models.Index(
                condition=models.Q(("legal_hold_at__isnull", False)),
                fields=["tenant", "-id"],
                name="a2a_task_legal_hold",
            ),
        ),
    ]
