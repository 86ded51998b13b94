from django.db import migrations, models


class Migration(migrations.Migration):
    """Signature counters of passkeys."""

    dependencies = [
        ('approvals', '0005_set_aside'),
    ]

    operations = [
        migrations.AddField(
            model_name='passkey',
            name='sign_count',
            field=models.PositiveBigIntegerField(db_default=0, default=0, help_text='Of its authenticator, when it was used last.'),
        ),
    ]
