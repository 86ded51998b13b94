from pathlib import Path

from django.contrib.postgres.operations import AddConstraintNotValid
from django.db import migrations, models

SQL = Path(__file__).parents[1] / 'sql'
STATES = ['prepared', 'refused', 'approved', 'committing', 'committed', 'handed_over', 'in_doubt', 'rolling_back', 'aborted', 'failed', 'compensating', 'compensated']


class Migration(migrations.Migration):

    dependencies = [
        ('ledger', '0016_credentials'),
    ]

    operations = [
        # Another choice; the column stays as it is.
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AlterField(
                    model_name='transaction',
                    name='state',
                    field=models.CharField(choices=[('prepared', 'waiting for sign-off'), ('refused', 'refused before anything was held'), ('approved', 'signed off, waiting for a worker'), ('committing', 'being carried out'), ('committed', 'done, with a receipt'), ('handed_over', 'signed off, handed to the agent'), ('in_doubt', 'started, outcome unknown'), ('rolling_back', 'letting go of what was held'), ('aborted', 'ended without any effect'), ('failed', 'could not be carried out'), ('compensating', 'being compensated'), ('compensated', 'done, then compensated')], max_length=20),
                ),
            ],
        ),
        migrations.RemoveConstraint(
            model_name='transaction',
            name='ledger_tx_state_is_on_the_map',
        ),
        # The next migration checks the rows that are there, beside the running processes.
        AddConstraintNotValid(
            model_name='transaction',
            constraint=models.CheckConstraint(condition=models.Q(('state__in', STATES)), name='ledger_tx_state_is_on_the_map'),
        ),
        migrations.RunSQL((SQL / 'search_ends.sql').read_text(), migrations.RunSQL.noop),
    ]
