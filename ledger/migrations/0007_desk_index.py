from django.contrib.postgres.operations import RemoveIndexConcurrently
from django.db import migrations, models

from ledger.database import AddIndexConcurrently


class Migration(migrations.Migration):
    # Built beside the running processes, which go on writing meanwhile.
    atomic = False

    dependencies = [
        ('ledger', '0006_lists_by_index'),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='transaction',
            index=models.Index(condition=models.Q(('state__in', ['approved', 'committing', 'compensating', 'in_doubt', 'prepared', 'rolling_back']), models.Q(('late_receipt', ''), _negated=True), ('settlement__isnull', False), _connector='OR'), fields=['tenant', 'expires_at'], name='ledger_tx_desk'),
        ),
        # It named the states that have ended, of which PostgreSQL expected far too few.
        RemoveIndexConcurrently(
            model_name='transaction',
            name='ledger_tx_open',
        ),
    ]
