import django.contrib.postgres.indexes
from django.db import migrations, models

from ledger.foundation.postgres import AddIndexConcurrently


class Migration(migrations.Migration):
    """What else touches the same, and what followed what was sent back, built beside the others."""

    atomic = False
    dependencies = [
        ("ledger", "0023_requests"),
    ]

    operations = [
        AddIndexConcurrently(
            model_name="transaction",
            index=django.contrib.postgres.indexes.GinIndex(
                condition=models.Q(("touches__isnull", False)),
                fields=["touches"],
                name="ledger_tx_touches",
            ),
        ),
        AddIndexConcurrently(
            model_name="transaction",
            index=models.Index(
                condition=models.Q(("replaces__isnull", False)),
                fields=["replaces"],
                name="ledger_tx_replaces",
            ),
        ),
    ]
