from django.db import migrations, models

PLACES = ["inbox", "history", "ledger"]


class Migration(migrations.Migration):
    """Operators name filters of the ledger's lists, too."""

    dependencies = [("approvals", "0003_views_visits_summaries")]

    operations = [
        migrations.RemoveConstraint(
            model_name="savedview", name="approvals_savedview_place_exists"
        ),
        # Choices are no part of the table.
        migrations.SeparateDatabaseAndState(
            database_operations=[],
            state_operations=[
                migrations.AlterField(
                    model_name="savedview",
                    name="place",
                    field=models.CharField(
                        choices=[(place, place) for place in PLACES], max_length=10
                    ),
                )
            ],
        ),
        migrations.AddConstraint(
            model_name="savedview",
            constraint=models.CheckConstraint(
                name="approvals_savedview_place_exists",
                condition=models.Q(place__in=PLACES),
            ),
        ),
    ]
