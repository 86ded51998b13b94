import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ('a2a', '0004_git_buses'),
    ]

    operations = [
        # The choices are Django's; the column stays as it is.
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AlterField(
                    model_name='task',
                    name='reason_code',
                    field=models.CharField(blank=True, choices=[('missing_correlation_fields', 'Missing Correlation Fields'), ('wrong_audience', 'Wrong Audience'), ('missing_scope', 'Missing Scope'), ('tenant_boundary', 'Tenant Boundary'), ('duplicate_message', 'Duplicate Message'), ('delegation_loop', 'Delegation Loop'), ('delegation_budget', 'Delegation Budget'), ('unsupported_capability', 'Unsupported Capability'), ('schema_mismatch', 'Schema Mismatch'), ('expired', 'Expired'), ('over_capacity', 'Over Capacity'), ('not_revisable', 'Not Revisable'), ('card_drifted', 'Card Drifted'), ('timed_out', 'Timed Out'), ('worker_lost', 'Worker Lost'), ('worker_failed', 'Worker Failed'), ('declined', 'Declined'), ('input_timeout', 'Input Timeout'), ('canceled_by_client', 'Canceled By Client'), ('canceled_by_person', 'Canceled By Person'), ('parent_ended', 'Parent Ended'), ('not_signed_off', 'Not Signed Off'), ('refused', 'Refused'), ('remote_lost', 'Remote Lost'), ('remote_failed', 'Remote Failed')], max_length=40),
                ),
            ],
        ),
        migrations.AddField(
            model_name='task',
            name='revises',
            field=models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='revisions', to='a2a.task'),
        ),
        migrations.AddField(
            model_name='task',
            name='revision',
            field=models.PositiveSmallIntegerField(null=True),
        ),
    ]
