from pathlib import Path

import django.db.models.deletion
from django.db import migrations, models

SQL = Path(__file__).resolve().parent.parent / "sql"


class Migration(migrations.Migration):
    """A plan carries evidence: texts, tables, differences, pictures and PDFs."""

    dependencies = [
        ("ledger", "0012_requests_by_hour"),
    ]

    operations = [
        migrations.AddField(
            model_name="transaction",
            name="evidence",
            field=models.JSONField(
                help_text="Name, media type and SHA-256 of what the approver sees besides.",
                null=True,
            ),
        ),
        migrations.CreateModel(
            name="Evidence",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "number",
                    models.PositiveSmallIntegerField(help_text="From 1, as the plan had them."),
                ),
                ("content", models.BinaryField()),
                (
                    "transaction",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="ledger.transaction",
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "evidence",
                "constraints": [
                    models.UniqueConstraint(
                        fields=("transaction", "number"), name="ledger_evidence_numbered_once"
                    )
                ],
            },
        ),
        migrations.RunSQL((SQL / "evidence.sql").read_text(), migrations.RunSQL.noop),
    ]
