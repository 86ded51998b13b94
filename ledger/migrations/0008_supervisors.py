from pathlib import Path

import django.db.models.functions.datetime
from django.db import migrations, models

SQL = Path(__file__).parents[1] / 'sql'


class Migration(migrations.Migration):

    dependencies = [
        ('ledger', '0007_desk_index'),
    ]

    operations = [
        migrations.CreateModel(
            name='PolicyDocument',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('tenant', models.CharField(max_length=63)),
                ('sha256', models.CharField(max_length=64)),
                ('name', models.CharField(max_length=100)),
                ('version', models.CharField(max_length=40)),
                ('text', models.TextField()),
                ('added_by', models.CharField(max_length=150)),
                ('added_by_name', models.CharField(max_length=200)),
                ('at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
        ),
        migrations.AddField(
            model_name='agent',
            name='kept_by',
            field=models.CharField(blank=True, db_default='', default='', help_text='The person who runs it, as user:7. Agents of one keeper have one vote together, and so have all agents without one.', max_length=150),
        ),
        migrations.AddField(
            model_name='agent',
            name='review_percent',
            field=models.PositiveSmallIntegerField(db_default=10, default=10, help_text='Of its decisions as a supervisor, how many in a hundred people review.'),
        ),
        migrations.AddField(
            model_name='decision',
            name='kept_by',
            field=models.CharField(blank=True, db_default='', default='', max_length=150),
        ),
        migrations.AddField(
            model_name='decision',
            name='policy',
            field=models.JSONField(help_text='name, version, sha256 and the paragraphs that were cited', null=True),
        ),
        # Another choice; the column stays as it is.
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AlterField(
                    model_name='decision',
                    name='verdict',
                    field=models.CharField(choices=[('approve', 'approved'), ('reject', 'rejected'), ('pass_on', 'passed on to people')], max_length=10),
                ),
            ],
        ),
        migrations.AddConstraint(
            model_name='agent',
            constraint=models.CheckConstraint(condition=models.Q(('review_percent__lte', 100)), name='ledger_agent_review_is_a_percentage'),
        ),
        migrations.AddConstraint(
            model_name='policydocument',
            constraint=models.UniqueConstraint(fields=('tenant', 'sha256'), name='ledger_policy_one_per_text'),
        ),
        migrations.AddConstraint(
            model_name='policydocument',
            constraint=models.UniqueConstraint(fields=('tenant', 'name', 'version'), name='ledger_policy_one_text_per_version'),
        ),
        migrations.RunSQL((SQL / 'policy_documents.sql').read_text(), migrations.RunSQL.noop),
    ]
