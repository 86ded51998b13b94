from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("ledger", "0013_search_accents")]
    operations = [
        migrations.AddField(
            model_name="agenttoken",
            name="issued_by",
            field=models.CharField(max_length=200, null=True),
        ),
        migrations.AddField(
            model_name="agenttoken",
            name="last_used_at",
            field=models.DateTimeField(null=True, verbose_name="last used"),
        ),
    ]
