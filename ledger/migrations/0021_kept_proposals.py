from django.db import migrations, models


class Migration(migrations.Migration):
    """A brake may keep what agents propose meanwhile."""

    dependencies = [
        ('ledger', '0020_holds'),
    ]

    operations = [
        migrations.AddField(
            model_name='brake',
            name='keeps',
            field=models.BooleanField(db_default=False, default=False, help_text='What agents propose meanwhile waits, where planning it holds nothing.'),
        ),
    ]
