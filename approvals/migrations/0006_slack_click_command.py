from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("approvals", "0005_changes_take_two")]

    operations = [
        migrations.RenameField("slackclick", "said", "command"),
        migrations.AlterField(
            "slackclick",
            "command",
            models.TextField(help_text="As its job takes it (interactions.commands)."),
        ),
    ]
