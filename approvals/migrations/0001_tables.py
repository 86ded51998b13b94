from pathlib import Path

import datetime
import django.db.models.deletion
import django.db.models.functions.datetime
import ledger.foundation.crypto.encryption
from django.conf import settings
from django.db import migrations, models

SQL = Path(__file__).resolve().parent.parent / "sql"
TRIGGERS = (
    "user_name",
    "user_key",
)


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('a2a', '0001_tables'),
        ('auth', '0012_alter_user_first_name_max_length'),
        ('ledger', '0001_tables'),
        ('sessions', '0001_initial'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='AuthenticatorApp',
            fields=[
                ('user', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='+', serialize=False, to=settings.AUTH_USER_MODEL)),
                ('secret', ledger.foundation.crypto.encryption.SecretField()),
                ('last_step', models.BigIntegerField(help_text='Time step of the last code that was used.')),
            ],
        ),
        migrations.CreateModel(
            name='Preferences',
            fields=[
                ('user', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='preferences', serialize=False, to=settings.AUTH_USER_MODEL)),
                ('time_zone', models.CharField(blank=True, help_text='A name of the IANA database: Europe/Zurich.', max_length=64)),
                ('language', models.CharField(blank=True, help_text='Of settings.LANGUAGES.', max_length=10)),
                ('formats', models.CharField(blank=True, help_text='The locale of dates and numbers: en-GB, de-CH.', max_length=20)),
                ('theme', models.CharField(blank=True, choices=[('light', 'light'), ('dark', 'dark')], max_length=5)),
                ('opens_next', models.BooleanField(default=False, help_text='Whether the next item opens by itself after a decision.')),
            ],
        ),
        migrations.CreateModel(
            name='RecoveryCodes',
            fields=[
                ('user', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='+', serialize=False, to=settings.AUTH_USER_MODEL)),
                ('codes', ledger.foundation.crypto.encryption.SecretField(blank=True, help_text='Separated by spaces.')),
            ],
            options={
                'verbose_name_plural': 'recovery codes',
            },
        ),
        migrations.CreateModel(
            name='UserName',
            fields=[
                ('name', models.CharField(help_text='In small letters.', max_length=150, primary_key=True, serialize=False)),
                ('user_id', models.PositiveIntegerField()),
            ],
        ),
        migrations.CreateModel(
            name='NotificationSettings',
            fields=[
                ('user', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='notification_settings', serialize=False, to=settings.AUTH_USER_MODEL)),
                ('waiting', models.BooleanField(default=True, help_text='What waits for their sign-off.')),
                ('only_high', models.BooleanField(default=False, help_text='Of that, only high risk and above.')),
                ('before_expiry', models.BooleanField(default=False, help_text='Again, 5 minutes before its end.')),
                ('questions', models.BooleanField(default=True)),
                ('in_doubt', models.BooleanField(default=True, help_text='For operators.')),
                ('sound', models.BooleanField(default=False)),
                ('hides_details', models.BooleanField(default=False, help_text='No word of what it is about.')),
                ('quiet_from', models.TimeField(blank=True, null=True)),
                ('quiet_until', models.TimeField(blank=True, null=True)),
                ('time_zone', models.CharField(blank=True, help_text='Of their browser; their preference comes first.', max_length=64)),
                ('mail', models.CharField(blank=True, choices=[('', 'no e-mail'), ('each', 'an e-mail for each'), ('hourly', 'at most one e-mail an hour'), ('daily', 'one e-mail in the morning')], default='', max_length=6)),
                ('was_asked_at', models.DateTimeField(help_text='They answered the bar in the inbox.', null=True)),
                ('digest_at', models.DateTimeField(null=True)),
                ('mails_since', models.DateTimeField(null=True)),
                ('mails', models.PositiveSmallIntegerField(default=0)),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(models.Q(('quiet_from', None), ('quiet_until', None)), models.Q(('quiet_from__isnull', False), ('quiet_until__isnull', False)), _connector='OR'), name='approvals_notificationsettings_quiet_is_whole'), models.CheckConstraint(condition=models.Q(('mail__in', ['', 'each', 'hourly', 'daily'])), name='approvals_notificationsettings_mail_exists')],
            },
        ),
        migrations.CreateModel(
            name='Passkey',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=60)),
                ('credential', models.BinaryField(help_text='Attested credential data: its id and public key.')),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('last_used_at', models.DateTimeField(null=True)),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
        ),
        migrations.CreateModel(
            name='PushSubscription',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('endpoint', ledger.foundation.crypto.encryption.SecretField()),
                ('endpoint_hash', models.CharField(max_length=64, unique=True)),
                ('p256dh', ledger.foundation.crypto.encryption.SecretField(help_text="The browser's public key.")),
                ('auth', ledger.foundation.crypto.encryption.SecretField(help_text='The secret that it shares with us.')),
                ('session', models.UUIDField()),
                ('password_hash', models.CharField(max_length=64)),
                ('browser', models.CharField(max_length=60)),
                ('made_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('last_success_at', models.DateTimeField(null=True)),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='push_subscriptions', to=settings.AUTH_USER_MODEL)),
            ],
        ),
        migrations.CreateModel(
            name='SlackCommand',
            fields=[
                ('id', models.UUIDField(primary_key=True, serialize=False)),
                ('queue', models.CharField(help_text='The queue whose job carries it out.', max_length=20)),
                ('command', models.TextField(help_text='As JSON (interactions.commands); empty once it is done.')),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('due_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('done_at', models.DateTimeField(null=True)),
                ('tries', models.PositiveIntegerField(db_default=0)),
            ],
            options={
                'verbose_name': 'Slack command',
                'indexes': [models.Index(condition=models.Q(('done_at', None)), fields=['queue', 'due_at'], name='approvals_slackcommand_open'), models.Index(fields=['created_at'], name='approvals_slackcommand_old')],
            },
        ),
        migrations.CreateModel(
            name='SlackWorkspace',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('team_id', models.CharField(max_length=20, unique=True)),
                ('name', models.CharField(max_length=200)),
                ('bot_user_id', models.CharField(max_length=20)),
                ('app', models.CharField(blank=True, help_text='Names the bot token, without it.', max_length=16)),
                ('language', models.CharField(blank=True, db_default='', help_text='Of messages in its channels; people who are linked are answered in their own.', max_length=10)),
                ('tenants', models.ManyToManyField(blank=True, help_text='Whose transactions and questions may be shown and decided there.', related_name='slack_workspaces', to='ledger.tenant')),
            ],
            options={
                'verbose_name': 'Slack workspace',
            },
        ),
        migrations.CreateModel(
            name='SlackLinkRequest',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('slack_user_id', models.CharField(max_length=20)),
                ('home_team_id', models.CharField(blank=True, max_length=20)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('used_at', models.DateTimeField(null=True)),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to=settings.AUTH_USER_MODEL)),
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to='approvals.slackworkspace')),
            ],
        ),
        migrations.CreateModel(
            name='UserSession',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('ip', models.GenericIPAddressField()),
                ('user_agent', models.CharField(max_length=200)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('session', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='sessions.session')),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
        ),
        migrations.CreateModel(
            name='CompanyIdentity',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('issuer', models.CharField(max_length=255)),
                ('subject', models.CharField(max_length=255)),
                ('connected_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='company_identities', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'verbose_name_plural': 'company identities',
                'constraints': [models.UniqueConstraint(fields=('issuer', 'subject'), name='approvals_companyidentity_one_person'), models.UniqueConstraint(fields=('issuer', 'user'), name='approvals_companyidentity_one_each')],
            },
        ),
        migrations.CreateModel(
            name='Membership',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('role', models.CharField(choices=[('viewer', 'viewer: sees everything, decides nothing'), ('approver', 'approver: approves and rejects'), ('operator', 'operator: keeps the ledger, settles what is in doubt')], max_length=10)),
                ('tenant', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='memberships', to='ledger.tenant')),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='memberships', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('user', 'tenant', 'role'), name='approvals_membership_once_per_role'), models.CheckConstraint(condition=models.Q(('role__in', ['viewer', 'approver', 'operator'])), name='approvals_membership_role_exists')],
            },
        ),
        migrations.CreateModel(
            name='Notice',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('dismissed_at', models.DateTimeField(null=True)),
                ('event', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='ledger.event')),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='notices', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('dismissed_at', None)), fields=['user', '-id'], name='approvals_notice_open')],
            },
        ),
        migrations.CreateModel(
            name='ShownNotification',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('subject', models.UUIDField(help_text="Of the events: a transaction, or a question's task.")),
                ('item', models.UUIDField(help_text='The transaction or the question.')),
                ('about', models.CharField(choices=[('decision', 'waits for a decision'), ('question', 'waits for an answer'), ('doubt', 'is in doubt')], max_length=10)),
                ('shown_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('subscription', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='shown', to='approvals.pushsubscription')),
            ],
            options={
                'indexes': [models.Index(fields=['subject'], name='approvals_shown_subject')],
                'constraints': [models.UniqueConstraint(fields=('subscription', 'item'), name='approvals_shownnotification_one_per_item')],
            },
        ),
        migrations.CreateModel(
            name='SignInLink',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('purpose', models.CharField(choices=[('invite', 'to choose a first password or passkey'), ('recover', 'to choose a new one, after two operators reset the account'), ('reset', 'to choose a new password, by e-mail'), ('first', 'to make the first account of the installation')], max_length=10)),
                ('token_hash', models.CharField(max_length=64, unique=True)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('expires_at', models.DateTimeField()),
                ('used_at', models.DateTimeField(null=True)),
                ('user', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(models.Q(('purpose', 'first'), ('user', None)), models.Q(models.Q(('purpose', 'first'), _negated=True), ('user__isnull', False)), _connector='OR'), name='approvals_signinlink_of_somebody_or_first')],
            },
        ),
        migrations.CreateModel(
            name='SlackRoute',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('concerns', models.CharField(choices=[('everything', 'transactions and questions'), ('transactions', 'transactions'), ('questions', 'questions')], default='everything', max_length=12)),
                ('tool', models.CharField(blank=True, help_text='A tool or a skill; empty: any.', max_length=100)),
                ('owner', models.CharField(blank=True, help_text='Only tools of this owner_service; empty: any.', max_length=100)),
                ('min_risk', models.CharField(blank=True, choices=[('LOW', 'low'), ('MEDIUM', 'medium'), ('HIGH', 'high'), ('CRITICAL', 'critical')], help_text='Only transactions of this risk or a higher one; empty: any.', max_length=10)),
                ('channel', models.CharField(blank=True, help_text="The channel's id (C…), or else an approver.", max_length=20)),
                ('escalate_to', models.CharField(blank=True, help_text="The next channel's id, when nobody acted in time.", max_length=20)),
                ('escalate_after', models.DurationField(blank=True, help_text='How long the first has: hours:minutes:seconds.', null=True)),
                ('approver', models.ForeignKey(blank=True, help_text='Gets a direct message, once linked to Slack.', null=True, on_delete=django.db.models.deletion.CASCADE, related_name='slack_routes', to=settings.AUTH_USER_MODEL)),
                ('tenant', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='slack_routes', to='ledger.tenant')),
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='routes', to='approvals.slackworkspace')),
            ],
            options={
                'verbose_name': 'Slack route',
                'constraints': [models.CheckConstraint(condition=models.Q(models.Q(('channel', ''), ('approver__isnull', False)), models.Q(models.Q(('channel', ''), _negated=True), ('approver', None)), _connector='OR'), name='approvals_slackroute_one_target', violation_error_message='Name a channel or an approver, one of the two.'), models.CheckConstraint(condition=models.Q(models.Q(('escalate_after', None), ('escalate_to', '')), models.Q(models.Q(('escalate_to', ''), _negated=True), ('escalate_after__gt', datetime.timedelta(0))), _connector='OR'), name='approvals_slackroute_escalation_is_whole', violation_error_message='An escalation has a channel and a time, or neither.')],
            },
        ),
        migrations.CreateModel(
            name='SlackMessage',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('target', models.CharField(help_text='Channel (C…), or user (U…).', max_length=20)),
                ('why', models.CharField(blank=True, help_text='Said above an escalated one.', max_length=200)),
                ('escalate_to', models.CharField(blank=True, help_text='The next channel.', max_length=20)),
                ('channel', models.CharField(blank=True, max_length=20)),
                ('ts', models.CharField(blank=True, max_length=30)),
                ('shown', models.CharField(blank=True, max_length=64)),
                ('busy_until', models.DateTimeField(null=True)),
                ('hold', models.PositiveIntegerField(default=0)),
                ('posting_at', models.DateTimeField(null=True)),
                ('reminder_ts', models.CharField(blank=True, help_text='A reminder to rewrite.', max_length=30)),
                ('is_gone', models.BooleanField(default=False, help_text='Slack does not know it any more.')),
                ('question', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='slack_messages', to='a2a.question')),
                ('transaction', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='slack_messages', to='ledger.transaction')),
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='messages', to='approvals.slackworkspace')),
            ],
            options={
                'verbose_name': 'Slack message',
                'constraints': [models.UniqueConstraint(condition=models.Q(('transaction__isnull', False)), fields=('transaction', 'workspace', 'target'), name='approvals_slackmessage_one_per_transaction'), models.UniqueConstraint(condition=models.Q(('question__isnull', False)), fields=('question', 'workspace', 'target'), name='approvals_slackmessage_one_per_question'), models.CheckConstraint(condition=models.Q(models.Q(('question__isnull', False), ('transaction', None)), models.Q(('question', None), ('transaction__isnull', False)), _connector='OR'), name='approvals_slackmessage_has_one_subject')],
            },
        ),
        migrations.CreateModel(
            name='SlackIdentity',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('slack_user_id', models.CharField(max_length=20)),
                ('home_team_id', models.CharField(blank=True, help_text='Empty: the workspace itself.', max_length=20)),
                ('linked_by', models.CharField(max_length=150)),
                ('linked_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='slack_identities', to=settings.AUTH_USER_MODEL)),
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='identities', to='approvals.slackworkspace')),
            ],
            options={
                'verbose_name': 'Slack identity',
                'verbose_name_plural': 'Slack identities',
                'constraints': [models.UniqueConstraint(fields=('workspace', 'slack_user_id'), name='approvals_slackidentity_one_person'), models.UniqueConstraint(fields=('workspace', 'user'), name='approvals_slackidentity_one_each')],
            },
        ),
        *(
            migrations.RunSQL((SQL / f"{name}.sql").read_text(), migrations.RunSQL.noop)
            for name in TRIGGERS
        ),
    ]
