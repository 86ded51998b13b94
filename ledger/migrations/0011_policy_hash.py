from pathlib import Path

import django.db.models.functions.text
from django.db import migrations, models

SQL = Path(__file__).parents[1] / 'sql'


class Migration(migrations.Migration):

    dependencies = [
        ('ledger', '0010_reviews'),
    ]

    operations = [
        migrations.AddConstraint(
            model_name='policydocument',
            constraint=models.UniqueConstraint(models.F('tenant'), django.db.models.functions.text.Lower('name'), django.db.models.functions.text.Lower('version'), name='ledger_policy_one_text_any_case'),
        ),
        migrations.RunSQL(
            (SQL / 'policy_hash.sql').read_text(),
            'ALTER TABLE ledger_policydocument DROP CONSTRAINT ledger_policy_hash_is_of_text',
        ),
    ]
