from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("ledger", "0011_secrets_are_encrypted")]

    operations = [
        migrations.AddField(
            model_name="agenttoken",
            name="default_skill",
            field=models.SlugField(
                blank=True,
                db_default="",
                help_text="Id of the skill that a message is for which names none, as plain text "
                "does.",
                max_length=100,
            ),
        ),
    ]
