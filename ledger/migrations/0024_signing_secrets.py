from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("ledger", "0023_webhook_form")]
    operations = [
        # The table knows neither choices nor help texts.
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AlterField(
                    model_name="credential",
                    name="expires_at",
                    field=models.DateTimeField(
                        help_text="When the certificate, or the signing secret before this one, "
                        "expires.",
                        null=True,
                    ),
                ),
                migrations.AlterField(
                    model_name="credential",
                    name="kind",
                    field=models.CharField(
                        choices=[
                            ("header", "a header"),
                            ("client_certificate", "a client certificate"),
                            ("signing_secret", "a signing secret"),
                        ],
                        max_length=20,
                    ),
                ),
            ]
        )
    ]
