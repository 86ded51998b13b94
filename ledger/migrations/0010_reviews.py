import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('ledger', '0009_supervised_index'),
    ]

    operations = [
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
    ]
