import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("a2a", "0004_answers_stay"),
    ]

    operations = [
        migrations.AddField(
            model_name="remoteagent",
            name="sample",
            field=models.JSONField(
                blank=True,
                db_default={},
                default=dict,
                help_text='A harmless task, sent on demand and after its card has changed: {"skill": "echo", "input": {}}.',
            ),
        ),
        migrations.AddField(
            model_name="remoteagent",
            name="probe",
            field=models.ForeignKey(
                editable=False,
                help_text="The last sample task.",
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to="a2a.task",
            ),
        ),
    ]
