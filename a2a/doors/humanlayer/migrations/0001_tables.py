import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('ledger', '0001_tables'),
    ]

    operations = [
        migrations.CreateModel(
            name='BoundCall',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('agent', models.CharField(max_length=150)),
                ('key', models.CharField(max_length=255)),
                ('tool', models.CharField(max_length=100)),
                ('run_id', models.CharField(blank=True, max_length=200)),
                ('spec', models.JSONField(help_text='As sent; empty once its content is erased.')),
                ('sha256', models.CharField(help_text='Of what was sent.', max_length=64)),
                ('refusal', models.TextField(blank=True)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('retain_until', models.DateTimeField(help_text='If no transaction came of it.')),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('spec', {}), _negated=True), fields=['retain_until'], name='humanlayer_call_to_erase')],
                'constraints': [models.UniqueConstraint(fields=('agent', 'key'), name='humanlayer_call_one_per_key')],
            },
        ),
        migrations.CreateModel(
            name='Binding',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('function', models.CharField(help_text='Its name, as its client sends it.', max_length=80)),
                ('tool', models.CharField(blank=True, help_text='Empty: the agent runs the function itself.', max_length=100)),
                ('agent', models.ForeignKey(blank=True, help_text='Whose function it is; empty: that of every agent of the tenant.', null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='ledger.agent')),
                ('tenant', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='ledger.tenant')),
            ],
            options={
                'verbose_name': 'function carried out here',
                'verbose_name_plural': 'functions carried out here',
                'constraints': [models.UniqueConstraint(fields=('tenant', 'agent', 'function'), name='humanlayer_binding_one_per_agent'), models.UniqueConstraint(condition=models.Q(('agent', None)), fields=('tenant', 'function'), name='humanlayer_binding_one_for_all_agents')],
            },
        ),
    ]
