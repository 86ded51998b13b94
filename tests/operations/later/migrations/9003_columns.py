"""A column for agents, transactions and events."""

from django.db import migrations, models

LATER = models.CharField(max_length=20, db_default="")


class Migration(migrations.Migration):
    dependencies = [("ledger", "9002_indexes")]
    operations = [
        migrations.AddField(model, "later", LATER) for model in ("agent", "transaction", "event")
    ]
