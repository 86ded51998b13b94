from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("a2a", "0001_tables")]

    operations = [
        migrations.AddField(
            model_name="task",
            name="reads_text",
            field=models.BooleanField(
                null=True,
                help_text="The client wrote, or accepts, text: results begin with one. Empty: not known.",
            ),
        ),
    ]
