import datetime
import django.core.validators
import django.db.models.deletion
import django.db.models.functions.datetime
import django.db.models.functions.text
import ledger.foundation.crypto.encryption
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('a2a', '0001_tables'),
        ('ledger', '0001_tables'),
    ]

    operations = [
        migrations.CreateModel(
            name='GitBus',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('url', models.CharField(help_text='https://…, ssh://… or git@host:path', max_length=500)),
                ('branch', models.CharField(default='main', max_length=200, validators=[django.core.validators.RegexValidator('^[A-Za-z0-9][A-Za-z0-9._/-]*$', 'This is no name of a branch.')])),
                ('deploy_key', ledger.foundation.crypto.encryption.SecretField(blank=True, help_text='Private SSH key, as ssh-keygen writes it.')),
                ('known_hosts', models.TextField(blank=True, help_text='Lines of ssh-keyscan for the server.')),
                ('password', ledger.foundation.crypto.encryption.SecretField(blank=True, help_text='Over https: an access token.')),
                ('participant', models.CharField(help_text='Names our participant file.', max_length=100, validators=[django.core.validators.RegexValidator('^[A-Za-z0-9][A-Za-z0-9._-]*$', 'Letters, digits, dots, - and _ only.')], verbose_name='our id there')),
                ('strangers', models.CharField(choices=[('accept', 'take it'), ('ask', 'ask a person first'), ('refuse', 'answer with an error')], default='ask', max_length=6, verbose_name='requests without a good signature')),
                ('allowed_signers', models.TextField(blank=True, help_text="Lines of ssh-keygen's ALLOWED SIGNERS: alice@example ssh-ed25519 …")),
                ('poll_every', models.DurationField(default=datetime.timedelta(seconds=30), validators=[django.core.validators.MinValueValidator(datetime.timedelta(seconds=1))])),
                ('stuck_after', models.DurationField(default=datetime.timedelta(seconds=3600), help_text='Claims of others that are older are shown to operators.')),
                ('is_active', models.BooleanField(default=True)),
                ('environment', models.TextField(blank=True, db_default='', help_text="The repository's folders, as first seen. If it names others, the bus stands still until this is emptied: then those count.")),
                ('head', models.CharField(blank=True, help_text='Newest commit.', max_length=64)),
                ('fetched_at', models.DateTimeField(null=True)),
                ('error', models.TextField(blank=True)),
                ('unusable', models.JSONField(default=list, help_text='Names in the inbox that are no requests.')),
                ('rewritten_at', models.DateTimeField(help_text='When commits that were there had gone: somebody has forced a push.', null=True)),
                ('look_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('busy_until', models.DateTimeField(null=True)),
                ('hold', models.PositiveIntegerField(default=0)),
                ('agent', models.OneToOneField(on_delete=django.db.models.deletion.PROTECT, related_name='bus', to='ledger.agent')),
            ],
            options={
                'verbose_name_plural': 'git buses',
            },
        ),
        migrations.CreateModel(
            name='BusRequest',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('request_id', models.CharField(max_length=128)),
                ('is_ours', models.BooleanField(default=False)),
                ('progress', models.CharField(choices=[('left', 'left in the inbox'), ('held', 'a person is asked whether to take it'), ('claiming', 'being claimed'), ('taken', 'a task'), ('elsewhere', 'taken by another participant'), ('sending', 'being sent'), ('sent', 'waiting for its answer'), ('done', 'answered'), ('problem', 'waits for an operator')], max_length=10)),
                ('problem', models.TextField(blank=True)),
                ('problem_source', models.JSONField(help_text='Code and values that the text was made from.', null=True)),
                ('wish', models.CharField(blank=True, choices=[('release', 'put it back into the inbox'), ('refuse', 'answer with an error'), ('retry', 'look at it again')], max_length=10)),
                ('wished_by', models.CharField(blank=True, max_length=200)),
                ('wished_blob', models.CharField(blank=True, db_default='', help_text='The file that the operator has seen.', max_length=64)),
                ('method', models.CharField(blank=True, max_length=200)),
                ('parent_id', models.CharField(blank=True, max_length=128)),
                ('blob', models.CharField(blank=True, help_text="git's id of the file.", max_length=64)),
                ('sender_id', models.CharField(blank=True, max_length=200)),
                ('commit', models.CharField(blank=True, max_length=64)),
                ('author', models.CharField(blank=True, max_length=400)),
                ('signer', models.CharField(blank=True, max_length=200)),
                ('key', models.CharField(blank=True, help_text='Fingerprint of the signature.', max_length=200)),
                ('doubt', models.CharField(blank=True, db_default='', help_text='Why no signature counts.', max_length=200)),
                ('claim_mark', models.CharField(blank=True, db_default='', max_length=32)),
                ('claim_commit', models.CharField(blank=True, max_length=64)),
                ('answer_commit', models.CharField(blank=True, max_length=64)),
                ('processed_by', models.CharField(blank=True, max_length=200)),
                ('claimed_at', models.DateTimeField(help_text='By the time of the commit.', null=True)),
                ('at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('ended_at', models.DateTimeField(null=True)),
                ('admission', models.OneToOneField(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='bus_admission', to='a2a.task')),
                ('task', models.OneToOneField(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='bus_request', to='a2a.task')),
                ('bus', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='requests', to='git_bus.gitbus')),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('progress', 'done'), _negated=True), fields=['bus', 'progress'], name='git_bus_request_open')],
                'constraints': [models.UniqueConstraint(models.F('bus'), django.db.models.functions.text.Lower('request_id'), name='git_bus_request_once')],
            },
        ),
        migrations.CreateModel(
            name='BusMethod',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('method', models.CharField(max_length=200)),
                ('skill', models.SlugField(help_text='Id of a skill of the tenant.', max_length=100)),
                ('is_ours', models.BooleanField(default=True, help_text='Else it is done by whoever takes it there.', verbose_name='offered by us')),
                ('bus', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='methods', to='git_bus.gitbus')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('bus', 'method'), name='git_bus_method_once')],
            },
        ),
    ]
