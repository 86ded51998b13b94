"""Three indexes, built beside the running processes."""

from django.db import migrations, models

from ledger.foundation.postgres import AddIndexConcurrently


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("ledger", "9001_notes")]
    operations = [
        AddIndexConcurrently("event", models.Index(fields=["kind"], name="later_event_kind")),
        AddIndexConcurrently("agent", models.Index(fields=["name"], name="later_agent_name")),
        AddIndexConcurrently("transaction", models.Index(fields=["tool"], name="later_tx_tool")),
    ]
