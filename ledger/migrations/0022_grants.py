from pathlib import Path

import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models

SQL = Path(__file__).resolve().parent.parent / "sql"


class Migration(migrations.Migration):
    """Signatures given in advance, and budgets of those and of rules."""

    dependencies = [
        ('ledger', '0021_kept_proposals'),
    ]

    operations = [
        migrations.AddField(
            model_name='tenant',
            name='time_zone',
            field=models.CharField(db_default='UTC', default='UTC', help_text='In which days and months of budgets begin.', max_length=64),
        ),
        migrations.CreateModel(
            name='Budget',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('tenant', models.CharField(max_length=63)),
                ('owner', models.CharField(help_text='rule:<hash of its conditions>, grant:7.', max_length=63)),
                ('measure', models.CharField(help_text='A currency (ISO 4217), or times.', max_length=5)),
                ('period', models.CharField(blank=True, help_text='2026-11-29, 2026-11, or all.', max_length=10)),
                ('used', models.DecimalField(decimal_places=6, max_digits=26)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('tenant', 'owner', 'measure', 'period'), name='ledger_budget_once')],
            },
        ),
        migrations.CreateModel(
            name='Charge',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('amount', models.DecimalField(decimal_places=6, max_digits=20)),
                ('released_at', models.DateTimeField(null=True)),
                ('budget', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='charges', to='ledger.budget')),
                ('transaction', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='charges', to='ledger.transaction')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('transaction', 'budget'), name='ledger_charge_once')],
            },
        ),
        migrations.CreateModel(
            name='Grant',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('tenant', models.CharField(max_length=63)),
                ('agent', models.CharField(help_text='As agent:acme/helpdesk.', max_length=150)),
                ('tool', models.CharField(blank=True, help_text='Empty: each, in an emergency.', max_length=100)),
                ('when', models.JSONField(default=dict, help_text='Conditions, as those of a rule.')),
                ('budgets', models.JSONField(default=list)),
                ('warnings', models.JSONField(default=list, help_text='Those that its signer was shown.')),
                ('names', models.JSONField(help_text='Of arguments; null: any.', null=True)),
                ('tool_version', models.CharField(blank=True, default='', max_length=64)),
                ('typed', models.BooleanField(default=False)),
                ('is_break_glass', models.BooleanField(default=False)),
                ('why', models.CharField(blank=True, max_length=500)),
                ('given_by', models.CharField(max_length=150)),
                ('given_by_name', models.CharField(max_length=200)),
                ('confirmed_by', models.CharField(blank=True, max_length=150)),
                ('confirmed_by_name', models.CharField(blank=True, max_length=200)),
                ('given_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('ends_at', models.DateTimeField()),
                ('ended_at', models.DateTimeField(null=True)),
                ('ended_by', models.CharField(blank=True, max_length=150)),
                ('ended_by_name', models.CharField(blank=True, max_length=200)),
                ('transaction', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='ledger.transaction')),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('ended_at', None)), fields=['tenant', 'agent', 'tool'], name='ledger_grant_live')],
            },
        ),
        migrations.AddField(
            model_name='decision',
            name='grant',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='decisions', to='ledger.grant'),
        ),
        migrations.RunSQL((SQL / "budgets.sql").read_text(), migrations.RunSQL.noop),
    ]
