import ledger.foundation.crypto.encryption
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('git_bus', '0001_tables'),
    ]

    operations = [
        migrations.AddField(
            model_name='gitbus',
            name='signing_key',
            field=ledger.foundation.crypto.encryption.SecretField(blank=True, db_default='', default='', help_text='Private SSH key by which our commits are signed; empty: they are not.'),
        ),
        migrations.AddField(
            model_name='gitbus',
            name='note',
            field=models.TextField(blank=True, db_default='', help_text='What the repository lacks, and what counts instead.'),
        ),
    ]
