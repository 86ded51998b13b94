from django.db import migrations, models


class Migration(migrations.Migration):
    """How long a new signing key waits."""

    dependencies = [
        ('ledger', '0024_request_indexes'),
    ]

    operations = [
        migrations.AddField(
            model_name='tenant',
            name='signing_key_hours',
            field=models.PositiveSmallIntegerField(db_default=24, default=24, help_text='So many hours after a passkey was let sign decisions it may do so. Its person is told at once.'),
        ),
    ]
