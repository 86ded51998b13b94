from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("ledger", "0003_search_terms_once"),
    ]

    operations = [
        migrations.AddField(
            model_name="transaction",
            name="required_policy",
            field=models.CharField(blank=True, db_default="", default="", max_length=64),
        ),
    ]
