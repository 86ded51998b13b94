from django.db import migrations

SQL = """
    CREATE TRIGGER ledger_decision_append_only BEFORE UPDATE OR DELETE ON ledger_decision
        FOR EACH ROW EXECUTE FUNCTION ledger_refuse_change();
    CREATE TRIGGER ledger_decision_no_truncate BEFORE TRUNCATE ON ledger_decision
        FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse_change();
"""


class Migration(migrations.Migration):
    """Decisions are only ever appended, as the events that seal them are."""

    dependencies = [("ledger", "0009_transparency_log")]
    operations = [migrations.RunSQL(SQL, migrations.RunSQL.noop)]
