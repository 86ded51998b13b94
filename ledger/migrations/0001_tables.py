from pathlib import Path

import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.functions.datetime
import django.db.models.functions.text
import ledger.foundation.crypto.encryption
import ledger.models.agents
import ledger.models.ids
from django.db import migrations, models

SQL = Path(__file__).resolve().parent.parent / "sql"
TRIGGERS = (
    "seal_event",
    "append_only",
    "erase_reason",
    "tile_grows",
    "agent_identity",
    "lock_event_writers",
    "policy_documents",
    "policy_hash",
    "search_terms",
)


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
                ('webhook_secret', ledger.foundation.crypto.encryption.SecretField(blank=True, help_text='Signs webhooks (Standard Webhooks); made on save.')),
                ('webhook_form', models.CharField(blank=True, db_default='', default='', help_text='What it says of calls and questions of clients with a form of their own.', max_length=20)),
                ('limits', models.JSONField(blank=True, db_default={}, default=dict, help_text="Limits other than the tenant's default.")),
                ('kept_by', models.CharField(blank=True, db_default='', default='', help_text='The person who runs it, as user:7. Agents of one keeper have one vote together, and so have all agents without one.', max_length=150)),
                ('review_percent', models.PositiveSmallIntegerField(db_default=10, default=10, help_text='Of its decisions as a supervisor, how many in a hundred people review.')),
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
            name='SearchTerm',
            fields=[
                ('pk', models.CompositePrimaryKey('tenant', 'term', 'transaction_id', blank=True, editable=False, primary_key=True, serialize=False)),
                ('tenant', models.CharField(max_length=63)),
                ('term', models.CharField(db_collation='C', max_length=110)),
                ('transaction_id', models.UUIDField()),
            ],
        ),
        migrations.CreateModel(
            name='Tenant',
            fields=[
                ('slug', models.SlugField(max_length=63, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=200)),
                ('tools', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=100), blank=True, default=list, help_text='Tools that its agents may use, with commas between; * for all. None at first.', size=None)),
                ('limits', models.JSONField(blank=True, db_default={}, default=dict, help_text='Limits other than the default.')),
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
                ('issued_by', models.CharField(max_length=200, null=True)),
                ('last_used_at', models.DateTimeField(null=True, verbose_name='last used')),
                ('agent', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='tokens', to='ledger.agent')),
            ],
        ),
        migrations.CreateModel(
            name='ChangeRequest',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('tenant', models.CharField(blank=True, help_text='Empty: of the installation.', max_length=63)),
                ('kind', models.CharField(max_length=30)),
                ('subject', models.CharField(help_text='What it changes.', max_length=200)),
                ('concerns', models.CharField(blank=True, help_text='The person whom it is about, who cannot confirm it.', max_length=150)),
                ('in_place_of', models.CharField(blank=True, help_text='What it replaces, as it was; empty: nothing.', max_length=100)),
                ('after', models.JSONField(help_text='The subject as it will be.')),
                ('sha256', models.CharField(help_text='Of both: what the second operator saw.', max_length=64)),
                ('loosens', models.JSONField(default=list, help_text='Why it takes a second operator.')),
                ('state', models.CharField(choices=[('waiting', 'waits for a second operator'), ('confirmed', 'confirmed'), ('declined', 'declined'), ('overtaken', 'replaced by a later one')], default='waiting', max_length=10)),
                ('asked_by', models.CharField(max_length=150)),
                ('asked_by_name', models.CharField(max_length=200)),
                ('asked_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('expires_at', models.DateTimeField()),
                ('ended_by', models.CharField(blank=True, max_length=150)),
                ('ended_by_name', models.CharField(blank=True, max_length=200)),
                ('ended_at', models.DateTimeField(null=True)),
            ],
            options={
                'constraints': [models.UniqueConstraint(condition=models.Q(('state', 'waiting')), fields=('tenant', 'kind', 'subject'), name='ledger_change_request_one_waits'), models.CheckConstraint(condition=models.Q(models.Q(('state', 'confirmed'), _negated=True), models.Q(models.Q(('ended_by', ''), _negated=True), models.Q(('ended_by', models.F('asked_by')), _negated=True), models.Q(('ended_by', models.F('concerns')), _negated=True)), _connector='OR'), name='ledger_change_request_takes_two')],
            },
        ),
        migrations.CreateModel(
            name='LimitRefusal',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('minute', models.DateTimeField()),
                ('limit', models.CharField(max_length=20)),
                ('of', models.CharField(help_text='agent, tenant, token or address', max_length=10)),
                ('tenant', models.CharField(blank=True, max_length=63)),
                ('agent', models.CharField(blank=True, help_text="The agent's slug.", max_length=63)),
                ('number', models.PositiveIntegerField()),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('minute', 'limit', 'of', 'tenant', 'agent'), name='ledger_limitrefusal_one_per_minute')],
            },
        ),
        migrations.CreateModel(
            name='PolicyDocument',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('tenant', models.CharField(max_length=63)),
                ('sha256', models.CharField(max_length=64)),
                ('name', models.CharField(max_length=100)),
                ('version', models.CharField(max_length=40)),
                ('text', models.TextField()),
                ('added_by', models.CharField(max_length=150)),
                ('added_by_name', models.CharField(max_length=200)),
                ('at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('tenant', 'sha256'), name='ledger_policy_one_per_text'), models.UniqueConstraint(fields=('tenant', 'name', 'version'), name='ledger_policy_one_text_per_version'), models.UniqueConstraint(models.F('tenant'), django.db.models.functions.text.Lower('name'), django.db.models.functions.text.Lower('version'), name='ledger_policy_one_text_any_case')],
            },
        ),
        migrations.CreateModel(
            name='Reading',
            fields=[
                ('id', models.UUIDField(default=ledger.models.ids.new_id, primary_key=True, serialize=False)),
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
        migrations.CreateModel(
            name='SubjectUse',
            fields=[
                ('transaction_id', models.UUIDField(primary_key=True, serialize=False)),
                ('tenant', models.CharField(max_length=63)),
                ('tool', models.CharField(max_length=100)),
                ('subject', models.CharField(max_length=32)),
            ],
            options={
                'indexes': [models.Index(fields=['tenant', 'tool', 'subject', '-transaction_id'], name='ledger_subjectuse_of')],
            },
        ),
        migrations.CreateModel(
            name='SweeperLease',
            fields=[
                ('id', models.SmallIntegerField(primary_key=True, serialize=False)),
                ('epoch', models.BigIntegerField()),
                ('holder', models.CharField(help_text='Host, process and a random part.', max_length=200)),
                ('beat_at', models.DateTimeField(help_text="Its last sign of life, by the database's clock.")),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(('id', 1)), name='ledger_sweeperlease_one_row')],
            },
        ),
        migrations.CreateModel(
            name='McpUpstream',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(help_text='Names of its tools here begin with it.', max_length=31)),
                ('address', models.CharField(help_text='Of Streamable HTTP, or stdio: and a name of ASSENT_MCP_COMMANDS.', max_length=500)),
                ('credential', models.CharField(blank=True, help_text='Name of the credential that it asks for.', max_length=63)),
                ('revision', models.CharField(blank=True, help_text='Of MCP, as last spoken.', max_length=20)),
                ('tenant', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='ledger.tenant')),
            ],
            options={
                'verbose_name': 'MCP server',
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
            name='ToolVersion',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=100)),
                ('sha256', models.CharField(max_length=64)),
                ('manifest', models.JSONField()),
                ('added_by', models.CharField(max_length=150)),
                ('added_by_name', models.CharField(max_length=200)),
                ('at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('tenant', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='ledger.tenant')),
            ],
        ),
        migrations.CreateModel(
            name='Transaction',
            fields=[
                ('id', models.UUIDField(default=ledger.models.ids.new_id, primary_key=True, serialize=False)),
                ('tenant', models.CharField(max_length=63)),
                ('state', models.CharField(choices=[('prepared', 'waiting for sign-off'), ('refused', 'refused by the tool'), ('approved', 'signed off, waiting for a worker'), ('committing', 'being carried out'), ('committed', 'done'), ('handed_over', 'handed to the agent'), ('in_doubt', 'in doubt'), ('rolling_back', 'releasing what was held'), ('aborted', 'ended without any effect'), ('failed', 'failed, nothing was done'), ('compensating', 'being compensated'), ('compensated', 'done, then compensated')], max_length=20)),
                ('proposed_by', models.CharField(max_length=150)),
                ('proposed_by_name', models.CharField(max_length=200)),
                ('stated_reason', models.TextField(blank=True)),
                ('run_id', models.CharField(blank=True, max_length=200)),
                ('step_id', models.CharField(blank=True, max_length=200)),
                ('trace_id', models.CharField(blank=True, max_length=32)),
                ('traceparent', models.CharField(blank=True, max_length=55)),
                ('tool', models.CharField(max_length=100)),
                ('tool_version', models.CharField(help_text='SHA-256 of its manifest, if it is not Python.', max_length=64, null=True)),
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
                ('error_source', models.JSONField(help_text='Code and values that the text was made from.', null=True)),
                ('error_detail', models.TextField(blank=True, db_default='', default='', help_text='For operators only: it may hold secrets of a provider.')),
                ('late_receipt', models.CharField(blank=True, db_default='', default='', help_text='Came after the row was settled; nobody has looked.', max_length=500)),
                ('settlement', models.JSONField(help_text='What one operator proposed; it waits for another.', null=True)),
                ('ending', models.CharField(blank=True, choices=[('rejected', 'rejected'), ('expired', 'expired'), ('canceled', 'canceled by the agent'), ('hold_lapsed', 'the hold lapsed'), ('permit_lapsed', 'the agent did not act in time'), ('abandoned', 'planned, and not entered'), ('withdrawn', 'withdrawn by an operator'), ('failed', 'failed')], max_length=20)),
                ('ending_reason', models.TextField(blank=True)),
                ('ending_reason_source', models.JSONField(help_text='Code and values that the text was made from.', null=True)),
                ('compensation_receipt', models.CharField(blank=True, max_length=500)),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('state', 'prepared')), fields=['expires_at'], name='ledger_tx_due'), models.Index(condition=models.Q(('state__in', ['approved', 'committing', 'compensating', 'in_doubt', 'rolling_back'])), fields=['state', 'next_attempt_at'], name='ledger_tx_work'), models.Index(condition=models.Q(('state__in', ['approved', 'committing', 'compensating', 'in_doubt', 'prepared', 'rolling_back']), models.Q(('late_receipt', ''), _negated=True), ('settlement__isnull', False), _connector='OR'), fields=['tenant', 'expires_at'], name='ledger_tx_desk'), models.Index(condition=models.Q(('state', 'prepared')), fields=['tenant', 'proposed_by', 'expires_at'], name='ledger_tx_pending'), models.Index(condition=models.Q(('required_approver', 'SUPERVISOR'), ('state', 'prepared')), fields=['tenant', 'expires_at', 'id'], name='ledger_tx_supervised'), models.Index(condition=models.Q(('late_receipt', ''), _negated=True), fields=['tenant', 'operation_key'], name='ledger_tx_late'), models.Index(fields=['tenant', '-id'], name='ledger_tx_history'), models.Index(fields=['proposed_by', '-id'], name='ledger_tx_proposer'), models.Index(condition=models.Q(('state__in', ['aborted', 'committed', 'compensated', 'failed', 'handed_over', 'refused'])), fields=['tenant', 'state', '-id'], name='ledger_tx_ended_by_state'), models.Index(fields=['tenant', 'tool', '-id'], name='ledger_tx_by_tool'), models.Index(condition=models.Q(('content_erased_at', None), ('legal_hold_at', None), ('state__in', ['aborted', 'committed', 'compensated', 'failed', 'handed_over', 'refused'])), fields=['retain_until'], name='ledger_tx_to_erase'), models.Index(condition=models.Q(('legal_hold_at__isnull', False)), fields=['tenant', '-id'], name='ledger_tx_legal_hold'), models.Index(condition=models.Q(('content_erased_at__isnull', False)), fields=['tenant', '-id'], name='ledger_tx_erased'), models.Index(condition=models.Q(('receipt', ''), _negated=True), fields=['receipt'], name='ledger_tx_receipt'), models.Index(condition=models.Q(('trace_id', ''), _negated=True), fields=['trace_id'], name='ledger_tx_trace'), models.Index(condition=models.Q(('run_id', ''), _negated=True), fields=['run_id'], name='ledger_tx_run')],
                'constraints': [models.CheckConstraint(condition=models.Q(('state__in', ['prepared', 'refused', 'approved', 'committing', 'committed', 'handed_over', 'in_doubt', 'rolling_back', 'aborted', 'failed', 'compensating', 'compensated'])), name='ledger_tx_state_is_on_the_map'), models.CheckConstraint(condition=models.Q(models.Q(('state', 'committed'), _negated=True), models.Q(('receipt', ''), _negated=True), _connector='OR'), name='ledger_tx_no_commit_without_receipt'), models.CheckConstraint(condition=models.Q(models.Q(('amount', None), ('currency', '')), models.Q(('amount__gte', 0), models.Q(('currency', ''), _negated=True)), _connector='OR'), name='ledger_tx_amount_has_currency'), models.CheckConstraint(condition=models.Q(('expires_at__gte', models.F('created_at'))), name='ledger_tx_expires_after_creation'), models.UniqueConstraint(condition=models.Q(('state__in', ['aborted', 'failed', 'refused']), _negated=True), fields=('tenant', 'operation_key'), name='ledger_tx_one_per_operation')],
            },
        ),
        migrations.CreateModel(
            name='Permit',
            fields=[
                ('jti', models.UUIDField(default=ledger.models.ids.new_id, primary_key=True, serialize=False)),
                ('issued_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('expires_at', models.DateTimeField()),
                ('replaced_at', models.DateTimeField(null=True)),
                ('redeemed_at', models.DateTimeField(null=True)),
                ('redeemed_by', models.CharField(blank=True, max_length=150)),
                ('redeem_key', models.CharField(blank=True, max_length=255)),
                ('fencing_token', models.PositiveIntegerField(null=True)),
                ('transaction', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='permits', to='ledger.transaction')),
            ],
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
                ('reason_source', models.JSONField(help_text='Code and values that the text was made from.', null=True)),
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
                ('verdict', models.CharField(choices=[('approve', 'approved'), ('reject', 'rejected'), ('pass_on', 'passed on to people')], max_length=10)),
                ('intent_digest', models.CharField(max_length=64)),
                ('via', models.CharField(max_length=20)),
                ('reason', models.TextField(blank=True)),
                ('kept_by', models.CharField(blank=True, db_default='', default='', max_length=150)),
                ('policy', models.JSONField(help_text='name, version, sha256 and the paragraphs that were cited', null=True)),
                ('at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('transaction', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='decisions', to='ledger.transaction')),
            ],
        ),
        migrations.CreateModel(
            name='UpstreamTool',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(help_text='What the server calls it.', max_length=128)),
                ('tool', models.CharField(blank=True, help_text='What agents call it.', max_length=100)),
                ('state', models.CharField(choices=[('new', 'waits for an operator'), ('released', 'released'), ('held', 'held'), ('gone', 'gone from its list')], default='new', max_length=10)),
                ('why', models.TextField(blank=True, help_text='Why it is held.')),
                ('problem', models.TextField(blank=True, help_text='Why it cannot be offered as it is.')),
                ('definition', models.JSONField(help_text='As its list has it now.')),
                ('sha256', models.CharField(help_text='Of the definition.', max_length=64)),
                ('released_definition', models.JSONField(null=True)),
                ('released_sha256', models.CharField(blank=True, max_length=64)),
                ('its_others', models.JSONField(default=dict, help_text='The tools that plan for it, look up or compensate, by hash.')),
                ('changed_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('upstream', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='tools', to='ledger.mcpupstream')),
            ],
            options={
                'verbose_name': 'tool of an MCP server',
                'verbose_name_plural': 'tools of MCP servers',
            },
        ),
        migrations.CreateModel(
            name='UsageCursor',
            fields=[
                ('id', models.SmallIntegerField(primary_key=True, serialize=False)),
                ('upto_event', models.BigIntegerField()),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(('id', 1)), name='ledger_usagecursor_one_row')],
            },
        ),
        migrations.CreateModel(
            name='UsageDay',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('tenant', models.CharField(max_length=63)),
                ('day', models.DateField()),
                ('tool', models.CharField(max_length=100)),
                ('agent', models.CharField(help_text='As agent:acme/helpdesk.', max_length=150)),
                ('kind', models.CharField(max_length=30)),
                ('currency', models.CharField(blank=True, max_length=3)),
                ('size', models.SmallIntegerField()),
                ('number', models.PositiveIntegerField()),
            ],
            options={
                'indexes': [models.Index(fields=['tenant', 'tool', 'agent', 'day'], name='ledger_usageday_agent')],
                'constraints': [models.UniqueConstraint(fields=('tenant', 'day', 'tool', 'agent', 'kind', 'currency', 'size'), name='ledger_usageday_once')],
            },
        ),
        migrations.CreateModel(
            name='UsageDecider',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('tenant', models.CharField(max_length=63)),
                ('day', models.DateField()),
                ('decider', models.CharField(help_text='As user:7 or agent:acme/goodwill.', max_length=150)),
                ('agent', models.CharField(max_length=150)),
                ('kind', models.CharField(max_length=30)),
                ('wait', models.SmallIntegerField()),
                ('number', models.PositiveIntegerField()),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('tenant', 'day', 'decider', 'agent', 'kind', 'wait'), name='ledger_usagedecider_once')],
            },
        ),
        migrations.CreateModel(
            name='UsageHour',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('tenant', models.CharField(max_length=63)),
                ('hour', models.DateTimeField()),
                ('tool', models.CharField(max_length=100)),
                ('kind', models.CharField(max_length=30)),
                ('wait', models.SmallIntegerField()),
                ('number', models.PositiveIntegerField()),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('tenant', 'hour', 'tool', 'kind', 'wait'), name='ledger_usagehour_once')],
            },
        ),
        migrations.CreateModel(
            name='Watched',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(max_length=20)),
                ('pinned', models.JSONField(default=dict, help_text='As accepted: what its owner is held to.')),
                ('pinned_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), help_text='What was read before this counts no more.')),
                ('seen', models.JSONField(default=dict, help_text='As last read.')),
                ('held_why', models.TextField(blank=True, help_text='How it differs; empty: it does not.')),
                ('error', models.TextField(blank=True, help_text='Why it could not be read last time.')),
                ('failing_since', models.DateTimeField(null=True)),
                ('read_at', models.DateTimeField(null=True)),
                ('read_again_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                'indexes': [models.Index(fields=['read_again_at'], name='ledger_watched_due')],
            },
        ),
        migrations.CreateModel(
            name='RegisteredTool',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=100)),
                ('version', models.CharField(help_text='SHA-256 of the manifest.', max_length=64)),
                ('is_withdrawn', models.BooleanField(default=False, help_text='Agents cannot propose it now.')),
                ('held', models.TextField(blank=True, db_default='', help_text='Why it is held: neither proposed nor signed off; empty: it is not.')),
                ('tenant', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='registered_tools', to='ledger.tenant')),
                ('watched', models.OneToOneField(help_text='The contract that its owner publishes; empty: nothing is pinned.', null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='tool', to='ledger.watched')),
            ],
        ),
        migrations.AddField(
            model_name='mcpupstream',
            name='watched',
            field=models.OneToOneField(help_text='Its list of tools.', on_delete=django.db.models.deletion.PROTECT, related_name='upstream', to='ledger.watched'),
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
            name='Review',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('tenant', models.CharField(max_length=63)),
                ('agent', models.CharField(help_text='The supervisor, as agent:acme/goodwill.', max_length=150)),
                ('verdict', models.CharField(blank=True, choices=[('agree', 'agrees'), ('otherwise', 'would have decided otherwise')], max_length=10)),
                ('reviewer', models.CharField(blank=True, max_length=150)),
                ('reviewer_name', models.CharField(blank=True, max_length=200)),
                ('at', models.DateTimeField(null=True)),
                ('decision', models.OneToOneField(on_delete=django.db.models.deletion.PROTECT, related_name='review', to='ledger.decision')),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('verdict', '')), fields=['tenant', 'id'], name='ledger_review_open'), models.Index(fields=['tenant', 'agent', 'verdict', 'at'], name='ledger_review_rate')],
                'constraints': [models.CheckConstraint(condition=models.Q(models.Q(('at', None), ('reviewer', ''), ('verdict', '')), models.Q(models.Q(('verdict', ''), _negated=True), models.Q(('reviewer', ''), _negated=True), ('at__isnull', False)), _connector='OR'), name='ledger_review_verdict_has_a_reviewer')],
            },
        ),
        migrations.CreateModel(
            name='Owner',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('service', models.CharField(help_text='The owner_service of its contracts.', max_length=100)),
                ('webhook_url', models.URLField(help_text='Told when one of its transactions is in doubt, fails, gets stuck or is late.')),
                ('webhook_secret', ledger.foundation.crypto.encryption.SecretField(blank=True, help_text='Signs webhooks (Standard Webhooks); made on save.')),
                ('tenant', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='owners', to='ledger.tenant')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('tenant', 'service'), name='ledger_owner_one_per_service')],
            },
        ),
        migrations.CreateModel(
            name='Credential',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=63)),
                ('kind', models.CharField(choices=[('header', 'a header'), ('client_certificate', 'a client certificate'), ('signing_secret', 'a signing secret')], max_length=20)),
                ('hosts', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=260), help_text='It is sent to these, and to no other host.', size=None)),
                ('header', models.CharField(blank=True, help_text='The name of the header.', max_length=100)),
                ('secret', ledger.foundation.crypto.encryption.SecretField()),
                ('expires_at', models.DateTimeField(help_text='When the certificate, or the signing secret before this one, expires.', null=True)),
                ('tenant', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='ledger.tenant')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('tenant', 'name'), name='ledger_credential_one_per_name')],
            },
        ),
        migrations.AddConstraint(
            model_name='agent',
            constraint=models.UniqueConstraint(fields=('tenant', 'slug'), name='ledger_agent_one_per_slug'),
        ),
        migrations.AddConstraint(
            model_name='agent',
            constraint=models.CheckConstraint(condition=models.Q(('review_percent__lte', 100)), name='ledger_agent_review_is_a_percentage'),
        ),
        migrations.AddConstraint(
            model_name='toolversion',
            constraint=models.UniqueConstraint(fields=('tenant', 'name', 'sha256'), name='ledger_tool_one_per_version'),
        ),
        migrations.AddConstraint(
            model_name='permit',
            constraint=models.UniqueConstraint(condition=models.Q(('replaced_at', None)), fields=('transaction',), name='ledger_permit_one_per_transaction'),
        ),
        migrations.AddConstraint(
            model_name='permit',
            constraint=models.CheckConstraint(condition=models.Q(('expires_at__gt', models.F('issued_at'))), name='ledger_permit_expires_after_issue'),
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
            index=models.Index(fields=['tenant', '-id'], name='ledger_event_of_tenant'),
        ),
        migrations.AddIndex(
            model_name='event',
            index=models.Index(condition=models.Q(('to_state', '')), fields=['-id'], name='ledger_event_changes'),
        ),
        migrations.AddIndex(
            model_name='event',
            index=models.Index(condition=models.Q(('to_state', '')), fields=['kind', '-id'], name='ledger_event_change_kind'),
        ),
        migrations.AddIndex(
            model_name='event',
            index=models.Index(condition=models.Q(('to_state', '')), fields=['principal'], name='ledger_event_change_by'),
        ),
        migrations.AddIndex(
            model_name='event',
            index=models.Index(django.db.models.functions.text.Upper('principal_name'), condition=models.Q(('to_state', '')), name='ledger_event_change_name'),
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
        migrations.AddConstraint(
            model_name='upstreamtool',
            constraint=models.UniqueConstraint(fields=('upstream', 'name'), name='ledger_upstream_tool_one_per_name'),
        ),
        migrations.AddConstraint(
            model_name='registeredtool',
            constraint=models.UniqueConstraint(fields=('tenant', 'name'), name='ledger_tool_one_per_name'),
        ),
        migrations.AddConstraint(
            model_name='mcpupstream',
            constraint=models.UniqueConstraint(fields=('tenant', 'name'), name='ledger_mcp_upstream_one_per_name'),
        ),
        *(
            migrations.RunSQL((SQL / f"{name}.sql").read_text(), migrations.RunSQL.noop)
            for name in TRIGGERS
        ),
    ]
