import django.contrib.postgres.fields
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ('a2a', '0006_revisions_index'),
    ]

    operations = [
        migrations.AddField(
            model_name='task',
            name='may_answer',
            field=django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=150), help_text='Who answers its questions where the worker names nobody; as in a question.', null=True, size=None),
        ),
    ]
