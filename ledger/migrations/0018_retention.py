from pathlib import Path

from django.db import migrations, models

SQL = Path(__file__).resolve().parent.parent / "sql" / "erasure.sql"


class Migration(migrations.Migration):
    """Content is erased when its retention is over; its digests and events stay."""

    dependencies = [("ledger", "0017_scopes_for_one_tool")]
    operations = [
        migrations.AddField(
            "event", "reason_digest", models.CharField(blank=True, max_length=64)
        ),
        migrations.AlterField(
            "event",
            "details",
            models.TextField(default="{}", help_text="Canonical JSON; it is never erased."),
        ),
        migrations.AddField("transaction", "content_erased_at", models.DateTimeField(null=True)),
        migrations.AddField(
            "transaction",
            "legal_hold_at",
            models.DateTimeField(help_text="An operator keeps the content.", null=True),
        ),
        migrations.AlterField(
            "transaction",
            "retain_until",
            models.DateTimeField(help_text="From then on the content is erased."),
        ),
        migrations.AddIndex(
            "transaction",
            models.Index(
                condition=models.Q(
                    ("content_erased_at", None),
                    ("legal_hold_at", None),
                    ("state__in", ["aborted", "committed", "compensated", "failed", "refused"]),
                ),
                fields=["retain_until"],
                name="ledger_tx_retention",
            ),
        ),
        migrations.AddIndex(
            "transaction",
            models.Index(
                condition=models.Q(("legal_hold_at__isnull", False)),
                fields=["tenant", "-id"],
                name="ledger_tx_legal_hold",
            ),
        ),
        migrations.RunSQL(SQL.read_text(), migrations.RunSQL.noop),
    ]
