import datetime
import django.contrib.postgres.fields
import django.core.validators
import django.db.models.deletion
import django.db.models.functions.datetime
import ledger.foundation.crypto.encryption
import ledger.models.ids
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('ledger', '0001_tables'),
    ]

    operations = [
        migrations.CreateModel(
            name='RemoteAgent',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('url', models.URLField(help_text='Of the agent, or of its card.', max_length=2000)),
                ('token', ledger.foundation.crypto.encryption.SecretField(blank=True, help_text='Bearer token that we send; empty: none.')),
                ('required_capabilities', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=50), blank=True, default=list, help_text='streaming, push_notifications, extended_agent_card', size=None)),
                ('wants_push', models.BooleanField(default=False, help_text='Ask it to push news to us, where its card allows that.')),
                ('card_version', models.CharField(blank=True, max_length=100)),
                ('agent', models.OneToOneField(on_delete=django.db.models.deletion.PROTECT, related_name='remote', to='ledger.agent')),
                ('watched', models.OneToOneField(help_text='Its card.', on_delete=django.db.models.deletion.PROTECT, related_name='remote', to='ledger.watched')),
            ],
        ),
        migrations.CreateModel(
            name='Skill',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('tenant', models.CharField(editable=False, max_length=63)),
                ('slug', models.SlugField(max_length=100, verbose_name='id')),
                ('name', models.CharField(max_length=200)),
                ('description', models.TextField(blank=True)),
                ('tags', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=50), blank=True, default=list, size=None)),
                ('input_schema', models.JSONField(blank=True, default=dict, help_text='JSON Schema 2020-12.')),
                ('output_schema', models.JSONField(blank=True, default=dict, help_text='JSON Schema 2020-12.')),
                ('required_scope', models.CharField(blank=True, help_text='The envelope has to carry it among its scopes.', max_length=50)),
                ('max_concurrency', models.PositiveIntegerField(blank=True, help_text='Open tasks at a time; the next one is rejected.', null=True)),
                ('timeout', models.DurationField(default=datetime.timedelta(days=1), help_text='From submission to the end, without the waits for people.')),
                ('lease', models.DurationField(default=datetime.timedelta(seconds=60), help_text='How long a worker may be silent while it works.')),
                ('question_ttl', models.DurationField(default=datetime.timedelta(seconds=600), help_text='How long a question waits for its answer.')),
                ('retention', models.DurationField(blank=True, help_text='How long the content of a task is kept. Empty: ASSENT_TASK_RETENTION_DAYS.', null=True, validators=[django.core.validators.MinValueValidator(datetime.timedelta(seconds=1)), django.core.validators.MaxValueValidator(datetime.timedelta(days=36500))])),
                ('is_retry_safe', models.BooleanField(default=False, help_text='A task whose worker fell silent is given to another one.')),
                ('max_attempts', models.PositiveSmallIntegerField(default=3)),
                ('open_to', django.contrib.postgres.fields.ArrayField(base_field=models.SlugField(max_length=63), blank=True, default=list, help_text='Other tenants whose agents may submit, with an envelope.', size=None)),
                ('requires_envelope', models.BooleanField(default=False, help_text="Requests of the skill's own tenant, too, have to carry a whole envelope.")),
                ('is_active', models.BooleanField(default=True)),
                ('drift', models.TextField(blank=True, help_text="How a remote agent's card changed; stops new tasks until pinned.")),
                ('agent', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='skills', to='ledger.agent')),
            ],
        ),
        migrations.CreateModel(
            name='Task',
            fields=[
                ('id', models.UUIDField(default=ledger.models.ids.new_id, primary_key=True, serialize=False)),
                ('tenant', models.CharField(max_length=63)),
                ('context_id', models.CharField(max_length=100)),
                ('state', models.CharField(choices=[('submitted', 'waiting for a worker'), ('working', 'being worked on'), ('input-required', 'waiting for an answer'), ('auth-required', 'waiting for sign-off'), ('completed', 'completed'), ('failed', 'failed'), ('canceled', 'canceled'), ('rejected', 'rejected before it began')], max_length=20)),
                ('skill_slug', models.CharField(max_length=100)),
                ('input', models.JSONField(null=True)),
                ('result', models.JSONField(null=True)),
                ('metadata', models.JSONField(default=dict)),
                ('submitted_by', models.CharField(max_length=150)),
                ('submitted_by_name', models.CharField(max_length=200)),
                ('owner', models.CharField(blank=True, max_length=150)),
                ('owner_name', models.CharField(blank=True, max_length=200)),
                ('depth', models.PositiveSmallIntegerField(default=0)),
                ('revision', models.PositiveSmallIntegerField(null=True)),
                ('may_answer', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=150), help_text='Who answers its questions where the worker names nobody; as in a question.', null=True, size=None)),
                ('lent_scopes', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=200), default=list, size=None)),
                ('trace_id', models.CharField(blank=True, max_length=128)),
                ('idempotency_key', models.CharField(blank=True, max_length=255)),
                ('payload_hash', models.CharField(max_length=64)),
                ('envelope_message_id', models.CharField(blank=True, max_length=200)),
                ('card_version', models.CharField(blank=True, max_length=50)),
                ('stage', models.CharField(blank=True, max_length=200)),
                ('percent', models.PositiveSmallIntegerField(null=True)),
                ('note', models.TextField(blank=True)),
                ('reason_code', models.CharField(blank=True, choices=[('missing_correlation_fields', 'Missing Correlation Fields'), ('wrong_audience', 'Wrong Audience'), ('missing_scope', 'Missing Scope'), ('tenant_boundary', 'Tenant Boundary'), ('duplicate_message', 'Duplicate Message'), ('delegation_loop', 'Delegation Loop'), ('delegation_budget', 'Delegation Budget'), ('unsupported_capability', 'Unsupported Capability'), ('schema_mismatch', 'Schema Mismatch'), ('expired', 'Expired'), ('over_capacity', 'Over Capacity'), ('not_revisable', 'Not Revisable'), ('card_drifted', 'Card Drifted'), ('timed_out', 'Timed Out'), ('worker_lost', 'Worker Lost'), ('worker_failed', 'Worker Failed'), ('declined', 'Declined'), ('input_timeout', 'Input Timeout'), ('canceled_by_client', 'Canceled By Client'), ('canceled_by_person', 'Canceled By Person'), ('parent_ended', 'Parent Ended'), ('not_signed_off', 'Not Signed Off'), ('refused', 'Refused'), ('remote_lost', 'Remote Lost'), ('remote_failed', 'Remote Failed')], max_length=40)),
                ('reason', models.TextField(blank=True)),
                ('reason_source', models.JSONField(help_text='Code and values that the text was made from.', null=True)),
                ('errors', models.JSONField(default=list, help_text='What did not fit a schema.')),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('updated_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('expires_at', models.DateTimeField(null=True)),
                ('ended_at', models.DateTimeField(null=True)),
                ('retain_until', models.DateTimeField(help_text='From then on the content is erased.', null=True)),
                ('legal_hold_at', models.DateTimeField(help_text='An operator keeps the content.', null=True)),
                ('content_erased_at', models.DateTimeField(null=True)),
                ('fencing_token', models.PositiveIntegerField(default=0)),
                ('lease_expires_at', models.DateTimeField(null=True)),
                ('attempts', models.PositiveSmallIntegerField(default=0)),
                ('next_attempt_at', models.DateTimeField(null=True)),
                ('parent', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='children', to='a2a.task')),
                ('revises', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='revisions', to='a2a.task')),
                ('skill', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='tasks', to='a2a.skill')),
                ('transaction', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='tasks', to='ledger.transaction')),
            ],
        ),
        migrations.CreateModel(
            name='Question',
            fields=[
                ('id', models.UUIDField(default=ledger.models.ids.new_id, primary_key=True, serialize=False)),
                ('tenant', models.CharField(max_length=63)),
                ('state', models.CharField(choices=[('open', 'waiting for an answer'), ('answered', 'answered'), ('lapsed', 'not answered in time'), ('withdrawn', 'withdrawn: the task has ended')], default='open', max_length=10)),
                ('text', models.TextField()),
                ('form', models.JSONField(default=dict, help_text='JSON Schema of the answer; empty: any text.')),
                ('evidence', models.JSONField(default=list, help_text='Parts to show beside the question.')),
                ('may_answer', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=150), default=list, help_text='approver, operator, client, or principals. Empty: approvers and the client.', size=None)),
                ('asked_by', models.CharField(max_length=150)),
                ('asked_by_name', models.CharField(max_length=200)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('expires_at', models.DateTimeField()),
                ('ttl', models.DurationField()),
                ('answer', models.JSONField(null=True)),
                ('answered_by', models.CharField(blank=True, max_length=150)),
                ('answered_by_name', models.CharField(blank=True, max_length=200)),
                ('answered_via', models.CharField(blank=True, max_length=20)),
                ('ended_at', models.DateTimeField(null=True)),
                ('task', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='questions', to='a2a.task')),
            ],
        ),
        migrations.CreateModel(
            name='PushConfig',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('config_id', models.CharField(max_length=200)),
                ('url', models.CharField(max_length=2000)),
                ('token', ledger.foundation.crypto.encryption.SecretField(blank=True)),
                ('scheme', models.CharField(blank=True, max_length=50)),
                ('credentials', ledger.foundation.crypto.encryption.SecretField(blank=True)),
                ('task', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='push_configs', to='a2a.task')),
            ],
        ),
        migrations.CreateModel(
            name='Mirror',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('remote_task_id', models.CharField(blank=True, max_length=200)),
                ('remote_context_id', models.CharField(blank=True, max_length=200)),
                ('secret', ledger.foundation.crypto.encryption.SecretField()),
                ('is_over', models.BooleanField(default=False)),
                ('look_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('busy_until', models.DateTimeField(null=True)),
                ('hold', models.PositiveIntegerField(default=0)),
                ('unchanged_looks', models.PositiveSmallIntegerField(default=0)),
                ('failing_since', models.DateTimeField(null=True)),
                ('last_seen', models.CharField(blank=True, help_text='Digest of its last state.', max_length=64)),
                ('sent', models.JSONField(default=list, help_text='The messages that it was sent, as sent.')),
                ('answers_sent', django.contrib.postgres.fields.ArrayField(base_field=models.UUIDField(), default=list, size=None)),
                ('remote', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='mirrors', to='a2a.remoteagent')),
                ('task', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='mirror', to='a2a.task')),
            ],
        ),
        migrations.CreateModel(
            name='Message',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('message_id', models.CharField(max_length=200)),
                ('role', models.CharField(choices=[('user', 'the client'), ('agent', 'the agent')], max_length=5)),
                ('principal', models.CharField(max_length=150)),
                ('principal_name', models.CharField(max_length=200)),
                ('parts', models.JSONField()),
                ('metadata', models.JSONField(default=dict)),
                ('at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('task', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='messages', to='a2a.task')),
            ],
        ),
        migrations.CreateModel(
            name='Artifact',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('artifact_id', models.CharField(max_length=200)),
                ('name', models.CharField(blank=True, max_length=200)),
                ('description', models.TextField(blank=True)),
                ('parts', models.JSONField()),
                ('metadata', models.JSONField(default=dict)),
                ('is_complete', models.BooleanField(default=True)),
                ('at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('task', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='artifacts', to='a2a.task')),
            ],
        ),
        migrations.AddConstraint(
            model_name='skill',
            constraint=models.UniqueConstraint(fields=('tenant', 'slug'), name='a2a_skill_one_per_tenant'),
        ),
        migrations.AddIndex(
            model_name='task',
            index=models.Index(condition=models.Q(('state', 'submitted')), fields=['owner', 'id'], name='a2a_task_to_claim'),
        ),
        migrations.AddIndex(
            model_name='task',
            index=models.Index(condition=models.Q(('state', 'working')), fields=['lease_expires_at'], name='a2a_task_lease'),
        ),
        migrations.AddIndex(
            model_name='task',
            index=models.Index(condition=models.Q(('state__in', ['submitted', 'working'])), fields=['expires_at'], name='a2a_task_overtime'),
        ),
        migrations.AddIndex(
            model_name='task',
            index=models.Index(condition=models.Q(('state__in', ['auth-required', 'input-required', 'submitted', 'working'])), fields=['skill', 'state'], name='a2a_task_open'),
        ),
        migrations.AddIndex(
            model_name='task',
            index=models.Index(condition=models.Q(('ended_at', None)), fields=['tenant', 'submitted_by'], name='a2a_task_per_agent'),
        ),
        migrations.AddIndex(
            model_name='task',
            index=models.Index(condition=models.Q(('ended_at__isnull', False)), fields=['ended_at'], name='a2a_task_ended'),
        ),
        migrations.AddIndex(
            model_name='task',
            index=models.Index(condition=models.Q(('content_erased_at', None), ('ended_at__isnull', False), ('legal_hold_at', None)), fields=['retain_until'], name='a2a_task_retention'),
        ),
        migrations.AddIndex(
            model_name='task',
            index=models.Index(condition=models.Q(('legal_hold_at__isnull', False)), fields=['tenant', '-id'], name='a2a_task_legal_hold'),
        ),
        migrations.AddIndex(
            model_name='task',
            index=models.Index(condition=models.Q(('content_erased_at__isnull', False)), fields=['tenant', '-id'], name='a2a_task_erased'),
        ),
        migrations.AddIndex(
            model_name='task',
            index=models.Index(fields=['tenant', '-id'], name='a2a_task_history'),
        ),
        migrations.AddIndex(
            model_name='task',
            index=models.Index(fields=['tenant', 'skill_slug', '-id'], name='a2a_task_by_skill'),
        ),
        migrations.AddIndex(
            model_name='task',
            index=models.Index(condition=models.Q(('state__in', ['canceled', 'completed', 'failed', 'rejected'])), fields=['tenant', 'state', '-id'], name='a2a_task_by_state'),
        ),
        migrations.AddIndex(
            model_name='task',
            index=models.Index(condition=models.Q(('state__in', ['canceled', 'completed', 'failed', 'rejected'])), fields=['submitted_by', 'state'], name='a2a_task_submitted_ended'),
        ),
        migrations.AddIndex(
            model_name='task',
            index=models.Index(fields=['submitted_by', '-id'], name='a2a_task_submitted'),
        ),
        migrations.AddIndex(
            model_name='task',
            index=models.Index(fields=['owner', '-id'], name='a2a_task_owned'),
        ),
        migrations.AddIndex(
            model_name='task',
            index=models.Index(fields=['submitted_by', '-updated_at', '-id'], name='a2a_task_submitter'),
        ),
        migrations.AddIndex(
            model_name='task',
            index=models.Index(fields=['owner', '-updated_at', '-id'], name='a2a_task_owner'),
        ),
        migrations.AddIndex(
            model_name='task',
            index=models.Index(fields=['tenant', '-updated_at', '-id'], name='a2a_task_of_tenant'),
        ),
        migrations.AddIndex(
            model_name='task',
            index=models.Index(fields=['context_id'], name='a2a_task_context'),
        ),
        migrations.AddIndex(
            model_name='task',
            index=models.Index(condition=models.Q(('revises__isnull', False)), fields=['revises'], name='a2a_task_revises'),
        ),
        migrations.AddIndex(
            model_name='task',
            index=models.Index(condition=models.Q(('state__in', ['auth-required', 'input-required', 'submitted', 'working'])), fields=['owner', 'state'], name='a2a_task_of_assent'),
        ),
        migrations.AddIndex(
            model_name='task',
            index=models.Index(condition=models.Q(('trace_id', ''), _negated=True), fields=['trace_id'], name='a2a_task_trace'),
        ),
        migrations.AddConstraint(
            model_name='task',
            constraint=models.CheckConstraint(condition=models.Q(('state__in', ['submitted', 'working', 'input-required', 'auth-required', 'completed', 'failed', 'canceled', 'rejected'])), name='a2a_task_state_is_on_the_map'),
        ),
        migrations.AddConstraint(
            model_name='task',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('ended_at__isnull', False), ('state__in', ['canceled', 'completed', 'failed', 'rejected'])), models.Q(models.Q(('state__in', ['canceled', 'completed', 'failed', 'rejected']), _negated=True), ('ended_at', None)), _connector='OR'), name='a2a_task_ended_has_an_end'),
        ),
        migrations.AddConstraint(
            model_name='task',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('state__in', ['failed', 'canceled', 'rejected']), _negated=True), models.Q(('reason_code', ''), _negated=True), _connector='OR'), name='a2a_task_bad_end_has_a_reason'),
        ),
        migrations.AddConstraint(
            model_name='task',
            constraint=models.UniqueConstraint(condition=models.Q(('idempotency_key', ''), _negated=True), fields=('submitted_by', 'idempotency_key'), name='a2a_task_one_per_request'),
        ),
        migrations.AddConstraint(
            model_name='task',
            constraint=models.UniqueConstraint(condition=models.Q(('envelope_message_id', ''), _negated=True), fields=('submitted_by', 'envelope_message_id'), name='a2a_task_one_per_envelope'),
        ),
        migrations.AddIndex(
            model_name='question',
            index=models.Index(fields=['tenant', '-id'], name='a2a_question_history'),
        ),
        migrations.AddIndex(
            model_name='question',
            index=models.Index(condition=models.Q(('state', 'open')), fields=['expires_at'], name='a2a_question_due'),
        ),
        migrations.AddIndex(
            model_name='question',
            index=models.Index(condition=models.Q(('ended_at__isnull', False)), fields=['ended_at'], name='a2a_question_ended'),
        ),
        migrations.AddIndex(
            model_name='question',
            index=models.Index(condition=models.Q(('state', 'open')), fields=['tenant', 'expires_at'], name='a2a_question_waiting'),
        ),
        migrations.AddIndex(
            model_name='question',
            index=models.Index(condition=models.Q(('state', 'open')), fields=['tenant', 'asked_by', 'expires_at'], name='a2a_question_per_agent'),
        ),
        migrations.AddConstraint(
            model_name='question',
            constraint=models.UniqueConstraint(condition=models.Q(('state', 'open')), fields=('task',), name='a2a_question_one_open_per_task'),
        ),
        migrations.AddConstraint(
            model_name='question',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('state', 'answered'), _negated=True), models.Q(('answered_by', ''), _negated=True), _connector='OR'), name='a2a_question_answered_by_somebody'),
        ),
        migrations.AddConstraint(
            model_name='pushconfig',
            constraint=models.UniqueConstraint(fields=('task', 'config_id'), name='a2a_push_one_per_id'),
        ),
        migrations.AddIndex(
            model_name='mirror',
            index=models.Index(condition=models.Q(('is_over', False)), fields=['look_at'], name='a2a_mirror_due'),
        ),
        migrations.AddIndex(
            model_name='message',
            index=models.Index(fields=['task', 'id'], name='a2a_message_history'),
        ),
        migrations.AddConstraint(
            model_name='artifact',
            constraint=models.UniqueConstraint(fields=('task', 'artifact_id'), name='a2a_artifact_one_per_id'),
        ),
    ]
