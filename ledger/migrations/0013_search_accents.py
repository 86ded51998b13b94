from pathlib import Path
from typing import Any

from django.db import migrations

SQL = Path(__file__).parents[1] / "sql"


def replace(apps: Any, schema_editor: Any) -> None:
    schema_editor.execute((SQL / "search_accents.sql").read_text(), params=None)


class Migration(migrations.Migration):
    # For what ends from now on; `manage.py rebuild_search` fills those of what ended before.
    dependencies = [("ledger", "0012_usage")]
    operations = [migrations.RunPython(replace, migrations.RunPython.noop)]
