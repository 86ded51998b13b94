from pathlib import Path

import datetime
import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models

SQL = Path(__file__).resolve().parent.parent / "sql"
TRIGGERS = ("user_name", "user_key")


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('a2a', '0001_initial'),
        ('ledger', '0001_initial'),
        ("auth", "0012_alter_user_first_name_max_length"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='UserName',
            fields=[
                ('name', models.CharField(help_text='In small letters.', max_length=150, primary_key=True, serialize=False)),
                ('user_id', models.PositiveIntegerField()),
            ],
        ),
        migrations.CreateModel(
            name='SlackClick',
            fields=[
                ('id', models.UUIDField(primary_key=True, serialize=False)),
                ('command', models.TextField(help_text='As its job takes it (interactions.commands).')),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('claimed_until', models.DateTimeField(null=True)),
                ('done_at', models.DateTimeField(null=True)),
                ('tries', models.PositiveIntegerField(db_default=0)),
            ],
            options={
                'verbose_name': 'Slack click',
                'indexes': [models.Index(condition=models.Q(('done_at', None)), fields=['created_at'], name='approvals_slackclick_open'), models.Index(fields=['created_at'], name='approvals_slackclick_old')],
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
            name='PendingChange',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(help_text='Of the event that it becomes.', max_length=30)),
                ('tenant', models.CharField(blank=True, max_length=63)),
                ('details', models.JSONField(default=dict)),
                ('state', models.CharField(choices=[('waiting', 'waits for a second operator'), ('confirmed', 'confirmed'), ('declined', 'declined')], default='waiting', max_length=10)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('expires_at', models.DateTimeField()),
                ('ended_at', models.DateTimeField(null=True)),
                ('asked_by', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='asked_changes', to=settings.AUTH_USER_MODEL)),
                ('ended_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='ended_changes', to=settings.AUTH_USER_MODEL)),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='pending_changes', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(models.Q(('state', 'confirmed'), _negated=True), models.Q(('ended_by__isnull', False), models.Q(('ended_by', models.F('asked_by')), _negated=True), models.Q(('ended_by', models.F('user')), _negated=True)), _connector='OR'), name='approvals_pendingchange_takes_two')],
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
