import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    """Saved views, the last visit of a person, and summaries by e-mail."""

    dependencies = [
        ('approvals', '0002_pace'),
        ('auth', '0012_alter_user_first_name_max_length'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='SavedView',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('place', models.CharField(choices=[('inbox', 'inbox'), ('history', 'history')], max_length=10)),
                ('name', models.CharField(max_length=60)),
                ('query', models.CharField(help_text='Read through the form of its place.', max_length=2000)),
            ],
        ),
        migrations.CreateModel(
            name='Visit',
            fields=[
                ('user', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='visit', serialize=False, to=settings.AUTH_USER_MODEL)),
                ('last_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('away_since', models.DateTimeField(help_text='Until the inbox has told what was decided meanwhile.', null=True)),
            ],
        ),
        migrations.AddField(
            model_name='notificationsettings',
            name='second_summary_hour',
            field=models.PositiveSmallIntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='notificationsettings',
            name='summary_due_at',
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name='notificationsettings',
            name='summary_hour',
            field=models.PositiveSmallIntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='notificationsettings',
            name='summary_upto',
            field=models.DateTimeField(null=True),
        ),
        migrations.AddConstraint(
            model_name='notificationsettings',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('second_summary_hour', None), ('summary_hour', None)), models.Q(('summary_hour__lt', 24), models.Q(('second_summary_hour', None), ('second_summary_hour__lt', 24), _connector='OR')), _connector='OR'), name='approvals_notificationsettings_summary_hours_exist'),
        ),
        migrations.AddField(
            model_name='savedview',
            name='user',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='saved_views', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddConstraint(
            model_name='savedview',
            constraint=models.UniqueConstraint(fields=('user', 'place', 'name'), name='approvals_savedview_one_per_name'),
        ),
        migrations.AddConstraint(
            model_name='savedview',
            constraint=models.CheckConstraint(condition=models.Q(('place__in', ['inbox', 'history'])), name='approvals_savedview_place_exists'),
        ),
    ]
