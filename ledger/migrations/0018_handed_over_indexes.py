from django.contrib.postgres.operations import RemoveIndexConcurrently, ValidateConstraint
from django.db import migrations, models

from ledger.database import AddIndexConcurrently

FINAL = ['aborted', 'committed', 'compensated', 'failed', 'handed_over', 'refused']


class Migration(migrations.Migration):
    # Built beside the running processes, which go on writing meanwhile.
    atomic = False

    dependencies = [
        ('ledger', '0017_handed_over'),
    ]

    operations = [
        ValidateConstraint(
            model_name='transaction',
            name='ledger_tx_state_is_on_the_map',
        ),
        AddIndexConcurrently(
            model_name='transaction',
            index=models.Index(condition=models.Q(('state__in', FINAL)), fields=['tenant', 'state', '-id'], name='ledger_tx_ended_by_state'),
        ),
        AddIndexConcurrently(
            model_name='transaction',
            index=models.Index(condition=models.Q(('content_erased_at', None), ('legal_hold_at', None), ('state__in', FINAL)), fields=['retain_until'], name='ledger_tx_to_erase'),
        ),
        # Replaced by those two.
        RemoveIndexConcurrently(
            model_name='transaction',
            name='ledger_tx_by_state',
        ),
        RemoveIndexConcurrently(
            model_name='transaction',
            name='ledger_tx_retention',
        ),
    ]
