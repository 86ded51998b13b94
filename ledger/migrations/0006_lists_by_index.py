from django.contrib.postgres.operations import RemoveIndexConcurrently
from django.db import migrations, models
from django.db.models.functions import Upper

from ledger.database import AddIndexConcurrently


class Migration(migrations.Migration):
    # Built beside the running processes, which go on writing meanwhile.
    atomic = False

    dependencies = [
        ('ledger', '0005_search_terms'),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='event',
            index=models.Index(fields=['tenant', '-id'], name='ledger_event_of_tenant'),
        ),
        AddIndexConcurrently(
            model_name='event',
            index=models.Index(condition=models.Q(('to_state', '')), fields=['kind', '-id'], name='ledger_event_change_kind'),
        ),
        AddIndexConcurrently(
            model_name='event',
            index=models.Index(condition=models.Q(('to_state', '')), fields=['principal'], name='ledger_event_change_by'),
        ),
        AddIndexConcurrently(
            model_name='event',
            index=models.Index(Upper('principal_name'), condition=models.Q(('to_state', '')), name='ledger_event_change_name'),
        ),
        AddIndexConcurrently(
            model_name='transaction',
            index=models.Index(condition=models.Q(('state__in', ['aborted', 'committed', 'compensated', 'failed', 'refused'])), fields=['tenant', 'state', '-id'], name='ledger_tx_by_state'),
        ),
        AddIndexConcurrently(
            model_name='transaction',
            index=models.Index(condition=models.Q(('content_erased_at__isnull', False)), fields=['tenant', '-id'], name='ledger_tx_erased'),
        ),
        AddIndexConcurrently(
            model_name='transaction',
            index=models.Index(fields=['tenant', 'tool', '-id'], name='ledger_tx_by_tool'),
        ),
        # Replaced by ledger_tx_by_state and ledger_tx_by_tool.
        RemoveIndexConcurrently(
            model_name='transaction',
            name='ledger_tx_tool',
        ),
        RemoveIndexConcurrently(
            model_name='transaction',
            name='ledger_tx_ended',
        ),
    ]
