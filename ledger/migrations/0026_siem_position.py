
from django.db import migrations, models


class Migration(migrations.Migration):
    """Up to which event a SIEM took the log."""

    dependencies = [
        ('ledger', '0025_signing_keys'),
    ]

    operations = [
        migrations.CreateModel(
            name='SiemPosition',
            fields=[
                ('id', models.SmallIntegerField(primary_key=True, serialize=False)),
                ('upto_event', models.BigIntegerField()),
                ('epoch', models.BigIntegerField()),
                ('held_until', models.DateTimeField(help_text='No other batch is sent before.')),
                ('failures', models.PositiveSmallIntegerField(help_text='In a row.')),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(('id', 1)), name='ledger_siemposition_one_row')],
            },
        ),
    ]
