from pathlib import Path

import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models

SQL = Path(__file__).resolve().parent.parent / "sql" / "log.sql"


class Migration(migrations.Migration):
    """Checkpoints in the formats of transparency logs: a tree over all events, signed notes."""

    dependencies = [("ledger", "0008_changes_are_listed")]
    operations = [
        migrations.DeleteModel("Checkpoint"),
        migrations.CreateModel(
            name="Checkpoint",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                (
                    "size",
                    models.BigIntegerField(help_text="How many events it covers,", unique=True),
                ),
                (
                    "upto_event",
                    models.BigIntegerField(
                        help_text="of which this is the last.", unique=True
                    ),
                ),
                ("root", models.CharField(max_length=64)),
                (
                    "note",
                    models.TextField(help_text="C2SP tlog-checkpoint, signed by the log."),
                ),
                ("public_key", models.CharField(max_length=64)),
                (
                    "at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Cosignature",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("witness", models.CharField(max_length=200)),
                (
                    "line",
                    models.TextField(help_text="The signature line, without its newline."),
                ),
                (
                    "at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                ),
                (
                    "checkpoint",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="cosignatures",
                        to="ledger.checkpoint",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("checkpoint", "witness"),
                        name="ledger_cosignature_one_per_witness",
                    )
                ]
            },
        ),
        migrations.CreateModel(
            name="Tile",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("level", models.PositiveSmallIntegerField()),
                ("index", models.BigIntegerField()),
                ("hashes", models.BinaryField()),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("level", "index"), name="ledger_tile_one_per_place"
                    )
                ]
            },
        ),
        migrations.RunSQL(SQL.read_text(), migrations.RunSQL.noop),
    ]
