from django.db import migrations, models

from ledger.foundation.postgres import AddUniqueConcurrently


class Migration(migrations.Migration):
    """One vote each, of those that count. Beside running processes, so no database transaction."""

    atomic = False

    dependencies = [
        ("ledger", "0014_undo"),
    ]

    operations = [
        AddUniqueConcurrently(
            model_name="decision",
            constraint=models.UniqueConstraint(
                condition=models.Q(("is_withdrawn", False)),
                fields=("transaction", "principal"),
                name="ledger_decision_one_counting_vote_each",
            ),
        ),
        migrations.RunSQL(
            "ALTER TABLE ledger_decision DROP CONSTRAINT IF EXISTS ledger_decision_one_vote_each",
            migrations.RunSQL.noop,
            state_operations=[
                migrations.RemoveConstraint("decision", "ledger_decision_one_vote_each")
            ],
        ),
    ]
