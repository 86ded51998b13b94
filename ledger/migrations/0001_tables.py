from pathlib import Path

import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.functions.datetime
import ledger.encryption
import ledger.models.agents
import ledger.models
from django.db import migrations, models

SQL = Path(__file__).resolve().parent.parent / "sql"
TRIGGERS = ("seal_event", "append_only", "erase_reason", "tile_grows", "agent_identity", "lock_event_writers")


class Migration(migrations.Migration):

    initial = True

    dependencies = [
    ]

    operations = [
        migrations.CreateModel(
            name='Agent',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('slug', models.SlugField(max_length=63)),
                ('name', models.CharField(max_length=200)),
                ('is_active', models.BooleanField(default=True)),
                ('tools', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=100), blank=True, default=ledger.models.agents._all_tools, help_text="Of its tenant's tools those that it may use, with commas between; * for all.", size=None)),
                ('webhook_url', models.URLField(blank=True, help_text="Told when one of the agent's transactions is decided or ends.")),
                ('webhook_secret', ledger.encryption.SecretField(blank=True, help_text='Signs webhooks (Standard Webhooks); made on save.')),
            ],
        ),
        migrations.CreateModel(
            name='Checkpoint',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('size', models.BigIntegerField(help_text='How many events it covers,', unique=True)),
                ('upto_event', models.BigIntegerField(help_text='of which this is the last.', unique=True)),
                ('root', models.CharField(max_length=64)),
                ('note', models.TextField(help_text='C2SP tlog-checkpoint, signed by the log.')),
                ('public_key', models.CharField(max_length=64)),
                ('at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
        ),
        migrations.CreateModel(
            name='Tenant',
            fields=[
                ('slug', models.SlugField(max_length=63, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=200)),
                ('tools', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=100), blank=True, default=list, help_text='Tools that its agents may use, with commas between; * for all. None at first.', size=None)),
            ],
        ),
        migrations.CreateModel(
            name='AgentToken',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('hint', models.CharField(help_text='The first characters, to tell tokens apart.', max_length=16)),
                ('token_hash', models.CharField(max_length=64, unique=True)),
                ('scopes', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=120), default=ledger.models.agents._default_scopes, size=None)),
                ('default_skill', models.SlugField(blank=True, db_default='', help_text='Id of the skill that a message is for which names none, as plain text does.', max_length=100)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('expires_at', models.DateTimeField(blank=True, null=True)),
                ('revoked_at', models.DateTimeField(blank=True, null=True)),
                ('agent', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='tokens', to='ledger.agent')),
            ],
        ),
        migrations.CreateModel(
            name='Reading',
            fields=[
                ('id', models.UUIDField(default=ledger.models.new_id, primary_key=True, serialize=False)),
                ('tenant', models.CharField(max_length=63)),
                ('agent', models.CharField(max_length=150)),
                ('tool', models.CharField(max_length=100)),
                ('arguments', models.JSONField()),
                ('result_hash', models.CharField(blank=True, max_length=64)),
                ('error', models.TextField(blank=True)),
                ('at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                'indexes': [models.Index(fields=['tenant', '-id'], name='ledger_reading_history')],
            },
        ),
        migrations.AddField(
            model_name='agent',
            name='tenant',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='agents', to='ledger.tenant'),
        ),
        migrations.CreateModel(
            name='Tile',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('level', models.PositiveSmallIntegerField()),
                ('index', models.BigIntegerField()),
                ('hashes', models.BinaryField()),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('level', 'index'), name='ledger_tile_one_per_place')],
            },
        ),
        migrations.CreateModel(
            name='Transaction',
            fields=[
                ('id', models.UUIDField(default=ledger.models.new_id, primary_key=True, serialize=False)),
                ('tenant', models.CharField(max_length=63)),
                ('state', models.CharField(choices=[('prepared', 'waiting for sign-off'), ('refused', 'refused before anything was held'), ('approved', 'signed off, waiting for a worker'), ('committing', 'being carried out'), ('committed', 'done, with a receipt'), ('in_doubt', 'started, outcome unknown'), ('rolling_back', 'letting go of what was held'), ('aborted', 'ended without any effect'), ('failed', 'could not be carried out'), ('compensating', 'being compensated'), ('compensated', 'done, then compensated')], max_length=20)),
                ('proposed_by', models.CharField(max_length=150)),
                ('proposed_by_name', models.CharField(max_length=200)),
                ('stated_reason', models.TextField(blank=True)),
                ('run_id', models.CharField(blank=True, max_length=200)),
                ('step_id', models.CharField(blank=True, max_length=200)),
                ('trace_id', models.CharField(blank=True, max_length=32)),
                ('traceparent', models.CharField(blank=True, max_length=55)),
                ('tool', models.CharField(max_length=100)),
                ('owner_service', models.CharField(max_length=100)),
                ('risk_level', models.CharField(max_length=10)),
                ('required_approver', models.CharField(max_length=10)),
                ('consequence_level', models.CharField(max_length=15)),
                ('quorum', models.PositiveSmallIntegerField(default=1)),
                ('payload', models.JSONField(help_text='The arguments as proposed.')),
                ('arguments', models.JSONField(help_text='The arguments as validated and planned.')),
                ('input_hash', models.CharField(max_length=64)),
                ('operation_key', models.CharField(max_length=500)),
                ('action_summary', models.TextField()),
                ('warnings', models.JSONField(default=list)),
                ('amount', models.DecimalField(decimal_places=6, max_digits=20, null=True)),
                ('currency', models.CharField(blank=True, max_length=3)),
                ('held', models.JSONField(default=dict, help_text='What plan() holds until then.')),
                ('hold_expires_at', models.DateTimeField(null=True)),
                ('intent_digest', models.CharField(max_length=64)),
                ('created_at', models.DateTimeField()),
                ('expires_at', models.DateTimeField()),
                ('decided_at', models.DateTimeField(null=True)),
                ('ended_at', models.DateTimeField(null=True)),
                ('retain_until', models.DateTimeField(help_text='From then on the content is erased.')),
                ('legal_hold_at', models.DateTimeField(help_text='An operator keeps the content.', null=True)),
                ('content_erased_at', models.DateTimeField(null=True)),
                ('fencing_token', models.PositiveIntegerField(default=0)),
                ('lease_expires_at', models.DateTimeField(null=True)),
                ('attempts', models.PositiveSmallIntegerField(default=0)),
                ('next_attempt_at', models.DateTimeField(null=True)),
                ('receipt', models.CharField(blank=True, max_length=500)),
                ('receipt_url', models.CharField(blank=True, max_length=2000)),
                ('result', models.JSONField(null=True)),
                ('error', models.TextField(blank=True)),
                ('error_detail', models.TextField(blank=True, db_default='', default='', help_text='For operators only: it may hold secrets of a provider.')),
                ('late_receipt', models.CharField(blank=True, db_default='', default='', help_text='Came after the row was settled; nobody has looked.', max_length=500)),
                ('settlement', models.JSONField(help_text='What one operator proposed; it waits for another.', null=True)),
                ('ending', models.CharField(blank=True, choices=[('rejected', 'rejected'), ('expired', 'expired'), ('canceled', 'canceled by the agent'), ('hold_lapsed', 'the hold lapsed'), ('abandoned', 'planned, and not entered'), ('withdrawn', 'withdrawn by an operator'), ('failed', 'failed')], max_length=20)),
                ('ending_reason', models.TextField(blank=True)),
                ('compensation_receipt', models.CharField(blank=True, max_length=500)),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('state', 'prepared')), fields=['expires_at'], name='ledger_tx_due'), models.Index(condition=models.Q(('state__in', ['approved', 'committing', 'compensating', 'in_doubt', 'rolling_back'])), fields=['state', 'next_attempt_at'], name='ledger_tx_work'), models.Index(condition=models.Q(models.Q(('state__in', ['aborted', 'committed', 'compensated', 'failed', 'refused']), _negated=True), models.Q(('late_receipt', ''), _negated=True), ('settlement__isnull', False), _connector='OR'), fields=['tenant', 'expires_at'], name='ledger_tx_open'), models.Index(condition=models.Q(('late_receipt', ''), _negated=True), fields=['tenant', 'operation_key'], name='ledger_tx_late'), models.Index(fields=['tenant', '-id'], name='ledger_tx_history'), models.Index(fields=['proposed_by', '-id'], name='ledger_tx_proposer'), models.Index(condition=models.Q(('state__in', ['aborted', 'committed', 'compensated', 'failed', 'refused'])), fields=['state', '-id'], name='ledger_tx_ended'), models.Index(fields=['tool', '-id'], name='ledger_tx_tool'), models.Index(condition=models.Q(('content_erased_at', None), ('legal_hold_at', None), ('state__in', ['aborted', 'committed', 'compensated', 'failed', 'refused'])), fields=['retain_until'], name='ledger_tx_retention'), models.Index(condition=models.Q(('legal_hold_at__isnull', False)), fields=['tenant', '-id'], name='ledger_tx_legal_hold'), models.Index(condition=models.Q(('receipt', ''), _negated=True), fields=['receipt'], name='ledger_tx_receipt'), models.Index(condition=models.Q(('trace_id', ''), _negated=True), fields=['trace_id'], name='ledger_tx_trace'), models.Index(condition=models.Q(('run_id', ''), _negated=True), fields=['run_id'], name='ledger_tx_run')],
                'constraints': [models.CheckConstraint(condition=models.Q(('state__in', ['prepared', 'refused', 'approved', 'committing', 'committed', 'in_doubt', 'rolling_back', 'aborted', 'failed', 'compensating', 'compensated'])), name='ledger_tx_state_is_on_the_map'), models.CheckConstraint(condition=models.Q(models.Q(('state', 'committed'), _negated=True), models.Q(('receipt', ''), _negated=True), _connector='OR'), name='ledger_tx_no_commit_without_receipt'), models.CheckConstraint(condition=models.Q(models.Q(('amount', None), ('currency', '')), models.Q(('amount__gte', 0), models.Q(('currency', ''), _negated=True)), _connector='OR'), name='ledger_tx_amount_has_currency'), models.CheckConstraint(condition=models.Q(('expires_at__gte', models.F('created_at'))), name='ledger_tx_expires_after_creation'), models.UniqueConstraint(condition=models.Q(('state__in', ['aborted', 'failed', 'refused']), _negated=True), fields=('tenant', 'operation_key'), name='ledger_tx_one_per_operation')],
            },
        ),
        migrations.CreateModel(
            name='IdempotencyKey',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('agent', models.CharField(max_length=150)),
                ('route', models.CharField(max_length=50)),
                ('key', models.CharField(max_length=255)),
                ('payload_hash', models.CharField(blank=True, max_length=64)),
                ('status', models.PositiveSmallIntegerField(default=201)),
                ('answer', models.TextField(blank=True)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('transaction', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, to='ledger.transaction')),
            ],
        ),
        migrations.CreateModel(
            name='Event',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('subject', models.UUIDField()),
                ('tenant', models.CharField(max_length=63)),
                ('seq', models.PositiveIntegerField(default=0)),
                ('kind', models.CharField(max_length=30)),
                ('from_state', models.CharField(blank=True, max_length=20)),
                ('to_state', models.CharField(max_length=20)),
                ('principal', models.CharField(max_length=150)),
                ('principal_name', models.CharField(max_length=200)),
                ('via', models.CharField(max_length=20)),
                ('reason', models.TextField(blank=True)),
                ('reason_digest', models.CharField(blank=True, max_length=64)),
                ('details', models.TextField(default='{}', help_text='Canonical JSON; it is never erased.')),
                ('at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('previous_hash', models.CharField(blank=True, max_length=64)),
                ('hash', models.CharField(blank=True, max_length=64)),
                ('transaction', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='events', to='ledger.transaction')),
            ],
        ),
        migrations.CreateModel(
            name='Decision',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('principal', models.CharField(max_length=150)),
                ('principal_name', models.CharField(max_length=200)),
                ('verdict', models.CharField(choices=[('approve', 'approved'), ('reject', 'rejected')], max_length=10)),
                ('intent_digest', models.CharField(max_length=64)),
                ('via', models.CharField(max_length=20)),
                ('reason', models.TextField(blank=True)),
                ('at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('transaction', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='decisions', to='ledger.transaction')),
            ],
        ),
        migrations.CreateModel(
            name='Cosignature',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('witness', models.CharField(max_length=200)),
                ('line', models.TextField(help_text='The signature line, without its newline.')),
                ('at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('checkpoint', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='cosignatures', to='ledger.checkpoint')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('checkpoint', 'witness'), name='ledger_cosignature_one_per_witness')],
            },
        ),
        migrations.CreateModel(
            name='Delivery',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('channel', models.CharField(max_length=30)),
                ('recipient', models.CharField(blank=True, max_length=300)),
                ('state', models.CharField(choices=[('waiting', 'waiting'), ('done', 'done'), ('given_up', 'given up')], default='waiting', max_length=10)),
                ('attempts', models.PositiveIntegerField(default=0)),
                ('failures', models.PositiveSmallIntegerField(db_default=0)),
                ('next_attempt_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('error', models.TextField(blank=True)),
                ('done_at', models.DateTimeField(null=True)),
                ('event', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='deliveries', to='ledger.event')),
            ],
            options={
                'verbose_name_plural': 'deliveries',
                'indexes': [models.Index(condition=models.Q(('state', 'waiting')), fields=['next_attempt_at'], name='ledger_delivery_overdue'), models.Index(condition=models.Q(('state', 'given_up')), fields=['-id'], name='ledger_delivery_given_up')],
                'constraints': [models.UniqueConstraint(fields=('event', 'channel', 'recipient'), name='ledger_delivery_one_per_recipient')],
            },
        ),
        migrations.CreateModel(
            name='Owner',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('service', models.CharField(help_text='The owner_service of its contracts.', max_length=100)),
                ('webhook_url', models.URLField(help_text='Told when one of its transactions is in doubt, fails, gets stuck or is late.')),
                ('webhook_secret', ledger.encryption.SecretField(blank=True, help_text='Signs webhooks (Standard Webhooks); made on save.')),
                ('tenant', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='owners', to='ledger.tenant')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('tenant', 'service'), name='ledger_owner_one_per_service')],
            },
        ),
        migrations.AddConstraint(
            model_name='agent',
            constraint=models.UniqueConstraint(fields=('tenant', 'slug'), name='ledger_agent_one_per_slug'),
        ),
        migrations.AddConstraint(
            model_name='idempotencykey',
            constraint=models.UniqueConstraint(fields=('agent', 'route', 'key'), name='ledger_key_names_one_request'),
        ),
        migrations.AddIndex(
            model_name='event',
            index=models.Index(fields=['at'], name='ledger_event_recent'),
        ),
        migrations.AddIndex(
            model_name='event',
            index=models.Index(condition=models.Q(('to_state', '')), fields=['-id'], name='ledger_event_changes'),
        ),
        migrations.AddConstraint(
            model_name='event',
            constraint=models.UniqueConstraint(fields=('subject', 'seq'), name='ledger_event_one_place_in_chain'),
        ),
        migrations.AddConstraint(
            model_name='event',
            constraint=models.CheckConstraint(condition=models.Q(('transaction', None), ('transaction', models.F('subject')), _connector='OR'), name='ledger_event_transaction_is_subject'),
        ),
        migrations.AddConstraint(
            model_name='decision',
            constraint=models.UniqueConstraint(fields=('transaction', 'principal'), name='ledger_decision_one_vote_each'),
        ),
        *(
            migrations.RunSQL((SQL / f"{name}.sql").read_text(), migrations.RunSQL.noop)
            for name in TRIGGERS
        ),
    ]
