import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    """The toolkit's models refer to id tokens, of which there are none here."""

    dependencies = [
        ('oauth', '0001_tables'),
        ('oauth2_provider', '0022_refreshtoken_token_family_index'),
    ]

    operations = [
        migrations.AddField(
            model_name='accesstoken',
            name='id_token',
            field=models.OneToOneField(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='access_token', to='oauth2_provider.idtoken', verbose_name='ID token'),
        ),
    ]
