from django.db import migrations, models

from ledger.database import AddIndexConcurrently


class Migration(migrations.Migration):
    # Built beside the running processes, which go on writing meanwhile.
    atomic = False

    dependencies = [
        ('a2a', '0005_revisions'),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='task',
            index=models.Index(condition=models.Q(('revises__isnull', False)), fields=['revises'], name='a2a_task_revises'),
        ),
    ]
