"""A table and a trigger, built beside the running processes."""

from pathlib import Path

from django.db import migrations, models

from ledger.foundation.postgres import CreateModelOnce

FUNCTION = """
    CREATE OR REPLACE FUNCTION ledger_note() RETURNS trigger LANGUAGE plpgsql
    AS 'BEGIN RETURN NULL; END'
"""
TRIGGER = """
    CREATE OR REPLACE TRIGGER ledger_note AFTER UPDATE ON ledger_transaction
    FOR EACH ROW EXECUTE FUNCTION ledger_note()
"""


class Migration(migrations.Migration):
    atomic = False
    # The newest of the product.
    dependencies = [("ledger", max(path.stem for path in Path(__file__).parent.glob("0*.py")))]
    operations = [
        CreateModelOnce(
            "Note", [("id", models.BigAutoField(primary_key=True)), ("text", models.TextField())]
        ),
        migrations.RunSQL([FUNCTION, TRIGGER], migrations.RunSQL.noop),
    ]
