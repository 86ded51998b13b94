from django.db import migrations, models

from ledger.database import AddIndexConcurrently


class Migration(migrations.Migration):
    # Built beside the running processes, which go on writing meanwhile.
    atomic = False

    dependencies = [
        ('ledger', '0002_limits'),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='transaction',
            index=models.Index(condition=models.Q(('state', 'prepared')), fields=['tenant', 'proposed_by', 'expires_at'], name='ledger_tx_pending'),
        ),
    ]
