import django.contrib.postgres.fields
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    """Tokens that a sign-in gives: for one interface, of one person, for minutes."""

    dependencies = [
        ('ledger', '0026_siem_position'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name='agenttoken',
            name='is_temporary',
            field=models.BooleanField(db_default=False, default=False, help_text='Given for minutes, by the token endpoint; forgotten once it has expired.'),
        ),
        migrations.AddField(
            model_name='agenttoken',
            name='person',
            field=models.ForeignKey(blank=True, help_text='Whose sign-in gave it: it ends with their account, and once somebody else keeps the agent.', null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='agenttoken',
            name='resource',
            field=models.CharField(blank=True, db_default='', default='', help_text='The only interface that it opens, as mcp; empty: all of them.', max_length=20),
        ),
        migrations.AddField(
            model_name='tenant',
            name='own_agent_tools',
            field=django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=100), blank=True, db_default=[], default=list, help_text="Tools of an agent that a person makes by signing in with a program; * for all of the tenant's. None: people make no agents.", size=None),
        ),
    ]
