from django.db import migrations, models

from ledger.database import AddIndexConcurrently


class Migration(migrations.Migration):
    # Built beside the running processes, which go on writing meanwhile.
    atomic = False

    dependencies = [
        ('a2a', '0002_open_per_agent'),
        ('ledger', '0006_lists_by_index'),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='question',
            index=models.Index(fields=['tenant', '-id'], name='a2a_question_history'),
        ),
        AddIndexConcurrently(
            model_name='task',
            index=models.Index(condition=models.Q(('content_erased_at__isnull', False)), fields=['tenant', '-id'], name='a2a_task_erased'),
        ),
        AddIndexConcurrently(
            model_name='task',
            index=models.Index(fields=['tenant', 'skill_slug', '-id'], name='a2a_task_by_skill'),
        ),
        AddIndexConcurrently(
            model_name='task',
            index=models.Index(condition=models.Q(('state__in', ['canceled', 'completed', 'failed', 'rejected'])), fields=['tenant', 'state', '-id'], name='a2a_task_by_state'),
        ),
        AddIndexConcurrently(
            model_name='task',
            index=models.Index(fields=['owner', '-updated_at', '-id'], name='a2a_task_owner'),
        ),
        AddIndexConcurrently(
            model_name='task',
            index=models.Index(fields=['submitted_by', '-id'], name='a2a_task_submitted'),
        ),
        AddIndexConcurrently(
            model_name='task',
            index=models.Index(fields=['owner', '-id'], name='a2a_task_owned'),
        ),
        AddIndexConcurrently(
            model_name='task',
            index=models.Index(fields=['tenant', '-updated_at', '-id'], name='a2a_task_of_tenant'),
        ),
        AddIndexConcurrently(
            model_name='task',
            index=models.Index(condition=models.Q(('state__in', ['canceled', 'completed', 'failed', 'rejected'])), fields=['submitted_by', 'state'], name='a2a_task_submitted_ended'),
        ),
        AddIndexConcurrently(
            model_name='task',
            index=models.Index(fields=['context_id'], name='a2a_task_context'),
        ),
    ]
