from pathlib import Path

import django.db.models.functions.datetime
from django.db import migrations, models

SQL = Path(__file__).resolve().parent.parent / "sql"


class Migration(migrations.Migration):
    """People stop an agent, a tool, a tenant or everything."""

    dependencies = [
        ('ledger', '0017_rules'),
    ]

    operations = [
        migrations.CreateModel(
            name='Brake',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('tenant', models.CharField(blank=True, max_length=63)),
                ('agent', models.CharField(blank=True, help_text='As agent:acme/helpdesk.', max_length=150)),
                ('tool', models.CharField(blank=True, max_length=100)),
                ('why', models.CharField(max_length=500)),
                ('at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('by', models.CharField(max_length=150)),
                ('by_name', models.CharField(max_length=200)),
                ('until', models.DateTimeField(help_text='It lapses then; empty: until it is lifted.', null=True)),
                ('lifted_at', models.DateTimeField(null=True)),
                ('lifted_by', models.CharField(blank=True, db_default='', default='', max_length=150)),
                ('lifted_by_name', models.CharField(blank=True, db_default='', default='', max_length=200)),
                ('counted_at', models.DateTimeField(help_text='The clocks under it go on, for what was left when it was put.', null=True)),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('counted_at', None)), fields=['tenant'], name='ledger_brake_uncounted')],
                'constraints': [models.CheckConstraint(condition=models.Q(('agent', ''), models.Q(('tenant', ''), _negated=True), _connector='OR'), name='ledger_brake_agent_has_tenant'), models.CheckConstraint(condition=models.Q(models.Q(('lifted_at', None), ('lifted_by', '')), models.Q(('lifted_at__isnull', False), models.Q(('lifted_by', ''), _negated=True)), _connector='OR'), name='ledger_brake_is_lifted_by_somebody')],
            },
        ),
        migrations.RunSQL((SQL / "brakes.sql").read_text(), migrations.RunSQL.noop),
    ]
