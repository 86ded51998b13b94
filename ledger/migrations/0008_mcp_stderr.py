from django.db import migrations, models


class Migration(migrations.Migration):
    """Operators see why a program that speaks MCP failed."""

    dependencies = [
        ("ledger", "0007_settled_events"),
    ]

    operations = [
        migrations.AddField(
            model_name="mcpupstream",
            name="stderr",
            field=models.TextField(
                blank=True,
                db_default="",
                default="",
                help_text="The end of it, of a program that last failed.",
                verbose_name="standard error",
            ),
        ),
    ]
