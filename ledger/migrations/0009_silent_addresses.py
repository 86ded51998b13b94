import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):
    """An address that times out three times in a row is called once at a time."""

    dependencies = [
        ("ledger", "0008_mcp_stderr"),
    ]

    operations = [
        migrations.CreateModel(
            name="SilentAddress",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("tenant", models.CharField(max_length=63)),
                (
                    "address",
                    models.CharField(
                        help_text="Host and port, program, or function.", max_length=300
                    ),
                ),
                (
                    "acts",
                    models.BooleanField(
                        help_text="Of calls with an effect; else plans and look-ups."
                    ),
                ),
                ("timeouts", models.PositiveIntegerField(db_default=1, help_text="In a row.")),
                (
                    "since",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                ),
                (
                    "last_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                ),
                (
                    "called_until",
                    models.DateTimeField(
                        help_text="Until then one call finds out whether it answers.", null=True
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("tenant", "address", "acts"), name="ledger_silentaddress_one"
                    )
                ],
            },
        ),
    ]
