from django.db import migrations, models


class Migration(migrations.Migration):
    """A tenant says how many fast approvals in a row are too many."""

    dependencies = [
        ("ledger", "0009_silent_addresses"),
    ]

    operations = [
        migrations.AddField(
            model_name="tenant",
            name="fast_approvals",
            field=models.PositiveSmallIntegerField(
                db_default=5,
                default=5,
                help_text="After so many approvals in a row, each within two seconds of opening the "
                "item, a person types the amount of the next one. 0: never.",
            ),
        ),
    ]
