from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("ledger", "0004_required_policy"),
    ]

    operations = [
        migrations.AddField(
            model_name="tenant",
            name="demands_sender",
            field=models.BooleanField(
                db_default=False,
                default=False,
                help_text="Requests of agents to its skills name their sender and their time.",
            ),
        ),
        migrations.AddField(
            model_name="tenant",
            name="demands_scopes",
            field=models.BooleanField(
                db_default=False,
                default=False,
                help_text="A request of an agent lends its skills only the scopes that it names.",
            ),
        ),
    ]
