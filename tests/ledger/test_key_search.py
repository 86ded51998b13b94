"""How an operation key begins finds it by an index, in whichever order a database keeps texts."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import connection, connections
from django.test.utils import CaptureQueriesContext

from ledger.admin.transactions import with_key_beginning
from ledger.models import Tenant, Transaction
from tests.ledger.test_admin import FILL
from tests.operations.clusters import Cluster, home
from tests.tables import taken_back

ROWS = 20_000


def fill(alias: str) -> None:
    with connections[alias].cursor() as cursor:
        cursor.execute(FILL.partition(";")[0], [ROWS])
        cursor.execute("ANALYZE ledger_transaction")


def keys_that_begin(begin: str, alias: str = "default", most: int = 1_000) -> list[str]:
    found = with_key_beginning(Transaction.objects.using(alias), "acme", begin, most)
    rows = Transaction.objects.using(alias).filter(pk__in=found)
    return sorted(rows.values_list("operation_key", flat=True))


@pytest.fixture(scope="module")
def many_transactions(django_db_setup, django_db_blocker) -> Iterator[None]:
    """Written once, in a database transaction that stays open until all have been looked up."""
    with django_db_blocker.unblock(), taken_back():
        Tenant.objects.create(slug="acme", name="Acme Travel", tools=["*"])
        fill("default")
        yield


EXPECTED = {
    "pay:acme:1999": ["pay:acme:1999", *(f"pay:acme:1999{digit}" for digit in range(10))],
    "pay:acme:19997": ["pay:acme:19997"],
    "PAY:acme:19997": [],
    "pay-acme:19997": [],
    "payacme:1999": [],
    "pay:acme:1999!": [],
    "pay:acme:x": [],
}


@pytest.mark.django_db
@pytest.mark.parametrize("begin", EXPECTED)
def test_the_beginning_of_a_key_is_looked_up_in_the_index_of_keys(many_transactions, begin):
    with CaptureQueriesContext(connection) as queries:
        found = with_key_beginning(Transaction.objects.all(), "acme", begin, 1_000)
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN {queries[0]['sql']}")
        plan = "\n".join(line for (line,) in cursor.fetchall())

    assert len(queries) == 1
    assert len(found) == len(EXPECTED[begin])
    assert re.search("Index Scan using ledger_tx_one_per_operation", plan), plan
    assert "Sort" not in plan


@pytest.mark.django_db
def test_a_short_beginning_finds_the_first_keys_and_reads_no_more(many_transactions):
    assert len(keys_that_begin("pay", most=50)) == 50


@pytest.fixture
def in_american_order() -> Iterator[str]:
    """A database whose texts have the order of en_US, as those of PostgreSQL's image have."""
    with home() as folder:
        locales = folder / "locales"
        locales.mkdir()
        command = ["localedef", "-i", "en_US", "-f", "UTF-8", str(locales / "en_US.utf8")]
        subprocess.run(command, check=True)
        server = Cluster(folder, "american", LANG="en_US.utf8", LOCPATH=locales).create()
        place = {"HOST": "127.0.0.1", "PORT": server.port, "USER": "postgres", "NAME": "assent"}
        database = connection.copy("american")
        database.settings_dict |= {**place, "PASSWORD": "", "OPTIONS": {}}
        connections["american"] = database
        try:
            with database.schema_editor() as editor:
                editor.create_model(Transaction)
            yield "american"
        finally:
            database.close()
            del connections["american"]


@pytest.mark.slow
@pytest.mark.skipif(
    shutil.which("localedef") is None or not Path("/usr/share/i18n/locales/en_US").exists(),
    reason="needs localedef and what locales are made of",
)
@pytest.mark.django_db
def test_the_beginning_of_a_key_is_found_where_texts_have_the_order_of_a_language(
    in_american_order,
):
    fill(in_american_order)

    found = {begin: keys_that_begin(begin, in_american_order) for begin in EXPECTED}

    with connections[in_american_order].cursor() as cursor:
        cursor.execute("SELECT 'a' < 'B'")
        assert cursor.fetchone() == (True,), "not the order of bytes"
    assert found == EXPECTED
