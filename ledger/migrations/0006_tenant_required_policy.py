from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("ledger", "0005_tenant_demands"),
    ]

    operations = [
        migrations.AddField(
            model_name="tenant",
            name="required_policy",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                editable=False,
                help_text="The document that supervisors cite where a contract names none.",
                max_length=64,
            ),
        ),
    ]
