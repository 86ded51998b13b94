from pathlib import Path

import django.contrib.postgres.fields
import django.db.models.deletion
from django.db import migrations, models

SQL = Path(__file__).resolve().parent.parent / "sql"


class Migration(migrations.Migration):
    """Revisions of what waits, the thread about it, and what is looked at again before it begins."""

    dependencies = [
        ('ledger', '0022_grants'),
    ]

    operations = [
        migrations.CreateModel(
            name='Revision',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('number', models.PositiveSmallIntegerField(help_text='From 1.')),
                ('content', models.JSONField(help_text='Its columns of the intent; empty once it is erased.')),
            ],
        ),
        migrations.RemoveConstraint(
            model_name='evidence',
            name='ledger_evidence_numbered_once',
        ),
        migrations.AddField(
            model_name='evidence',
            name='revision',
            field=models.PositiveSmallIntegerField(db_default=1, default=1),
        ),
        migrations.AddField(
            model_name='transaction',
            name='asked_at',
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name='transaction',
            name='planned_at',
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name='transaction',
            name='replaces',
            field=models.UUIDField(null=True),
        ),
        migrations.AddField(
            model_name='transaction',
            name='revision',
            field=models.PositiveSmallIntegerField(db_default=1, default=1),
        ),
        migrations.AddField(
            model_name='transaction',
            name='touches',
            field=django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=500), null=True, size=None),
        ),
        migrations.AddField(
            model_name='transaction',
            name='true_until',
            field=models.DateTimeField(null=True),
        ),
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AlterField(
                    model_name='decision',
                    name='verdict',
                    field=models.CharField(choices=[('approve', 'approved'), ('reject', 'rejected'), ('send_back', 'sent back'), ('pass_on', 'passed on to people')], max_length=10),
                ),
                migrations.AlterField(
                    model_name='transaction',
                    name='ending',
                    field=models.CharField(blank=True, choices=[('rejected', 'rejected'), ('sent_back', 'sent back to the agent'), ('expired', 'expired'), ('outdated', 'not true any more'), ('canceled', 'canceled by the agent'), ('hold_lapsed', 'the hold lapsed'), ('permit_lapsed', 'the agent did not act in time'), ('abandoned', 'planned, and not entered'), ('withdrawn', 'withdrawn by an operator'), ('failed', 'failed')], max_length=20),
                ),
            ]
        ),
        migrations.AddConstraint(
            model_name='evidence',
            constraint=models.UniqueConstraint(fields=('transaction', 'revision', 'number'), name='ledger_evidence_numbered_once'),
        ),
        migrations.AddField(
            model_name='revision',
            name='transaction',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='revisions', to='ledger.transaction'),
        ),
        migrations.AddConstraint(
            model_name='revision',
            constraint=models.UniqueConstraint(fields=('transaction', 'number'), name='ledger_revision_numbered_once'),
        ),
        migrations.RunSQL((SQL / "revisions.sql").read_text(), migrations.RunSQL.noop),
        migrations.RunSQL((SQL / "erase_reason.sql").read_text(), migrations.RunSQL.noop),
    ]
