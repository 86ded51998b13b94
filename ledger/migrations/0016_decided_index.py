from django.db import migrations, models

from ledger.foundation.postgres import AddIndexConcurrently


class Migration(migrations.Migration):
    """What was decided in a span of time is found by an index, built beside running processes."""

    atomic = False
    dependencies = [
        ("ledger", "0015_counting_votes"),
    ]

    operations = [
        AddIndexConcurrently(
            model_name="transaction",
            index=models.Index(
                condition=models.Q(
                    ("decided_at__isnull", False),
                    models.Q(("required_approver", "NONE"), _negated=True),
                ),
                fields=["tenant", "-decided_at"],
                name="ledger_tx_decided",
            ),
        ),
    ]
