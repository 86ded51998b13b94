from django.db import migrations, models

from ledger.database import AddIndexConcurrently


class Migration(migrations.Migration):
    # Built beside the running processes, which go on writing meanwhile.
    atomic = False

    dependencies = [
        ('ledger', '0008_supervisors'),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='transaction',
            index=models.Index(condition=models.Q(('required_approver', 'SUPERVISOR'), ('state', 'prepared')), fields=['tenant', 'expires_at', 'id'], name='ledger_tx_supervised'),
        ),
    ]
