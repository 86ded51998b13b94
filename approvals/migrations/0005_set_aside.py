import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):
    """Transactions that people have set aside, each for themselves."""

    dependencies = [
        ('approvals', '0004_views_of_the_ledger'),
        ('ledger', '0021_kept_proposals'),
    ]

    operations = [
        migrations.CreateModel(
            name='SetAside',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('person', models.CharField(help_text='As user:7.', max_length=150)),
                ('until', models.DateTimeField(help_text='Empty: until shortly before it expires.', null=True)),
                ('set_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('transaction', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='ledger.transaction')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('person', 'transaction'), name='approvals_setaside_once_per_person')],
            },
        ),
    ]
