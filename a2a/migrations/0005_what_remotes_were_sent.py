from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("a2a", "0004_secrets_are_encrypted")]

    operations = [
        migrations.AddField(
            model_name="mirror",
            name="sent",
            field=models.JSONField(
                default=list, help_text="The messages that it was sent, as sent."
            ),
        ),
    ]
