from django.db import migrations, models

STATES = [
    ("waiting", "waits for a second operator"),
    ("confirmed", "confirmed"),
    ("declined", "declined"),
    ("overtaken", "replaced by a later one"),
    ("alone", "made by the only operator, and not read by another yet"),
    ("read", "made by the only operator, and read by another"),
]


class Migration(migrations.Migration):
    """Two further states; nothing in the database changes."""

    dependencies = [("ledger", "0010_tenant_fast_approvals")]
    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AlterField(
                    model_name="changerequest",
                    name="state",
                    field=models.CharField(choices=STATES, default="waiting", max_length=10),
                )
            ]
        )
    ]
