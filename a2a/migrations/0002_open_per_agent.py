from django.db import migrations, models

from ledger.database import AddIndexConcurrently


class Migration(migrations.Migration):
    # Built beside the running processes, which go on writing meanwhile.
    atomic = False

    dependencies = [
        ('a2a', '0001_initial'),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='question',
            index=models.Index(condition=models.Q(('state', 'open')), fields=['tenant', 'asked_by', 'expires_at'], name='a2a_question_per_agent'),
        ),
        AddIndexConcurrently(
            model_name='task',
            index=models.Index(condition=models.Q(('ended_at', None)), fields=['tenant', 'submitted_by'], name='a2a_task_per_agent'),
        ),
    ]
