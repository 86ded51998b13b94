"""The processes are a role that can append to the past and change none of it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest
from django.apps import apps
from django.core.exceptions import ImproperlyConfigured
from django.db import IntegrityError, ProgrammingError, connection
from django.db.transaction import atomic

from approvals import database_roles
from approvals.local import embedded_services
from ledger import execution
from ledger.models import Decision, Event
from ledger.proof import retention
from ledger.proof.log import checkpoints
from ledger.states import State
from ledger.transactions import coordinator
from tests.conftest import propose
from tests.forgery import end_retention
from tests.processes import ROOT, Product

pytestmark = pytest.mark.django_db(transaction=True)


@contextmanager
def as_role(role: str) -> Iterator[None]:
    with connection.cursor() as cursor:
        cursor.execute(f"SET ROLE {role}")
        try:
            yield
        finally:
            cursor.execute("RESET ROLE")


def as_application() -> AbstractContextManager[None]:
    return as_role(embedded_services.APPLICATION)


def test_every_table_stands_in_the_list_of_rights():
    tables = {
        model._meta.db_table
        for model in apps.get_models(include_auto_created=True)
        if model._meta.managed
    }
    of_apps = {**database_roles.of_optional_apps(), **database_roles.of_tool_apps()}
    listed = {**database_roles.RIGHTS, **of_apps}

    assert set(listed) == tables | {"django_migrations"}


@pytest.fixture
def signed_off(acme, alice):
    row = propose("pay")
    return coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web")


REFUSED = r"permission denied|must be owner"
PAST = ["ledger_event", "ledger_decision", "ledger_checkpoint", "ledger_cosignature"]


@pytest.mark.parametrize("table", PAST)
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE {table} SET id = id",
        "DELETE FROM {table}",
        "TRUNCATE {table} CASCADE",
        "ALTER TABLE {table} DISABLE TRIGGER ALL",
        "DROP TABLE {table} CASCADE",
        "CREATE TRIGGER mine BEFORE INSERT ON {table} EXECUTE FUNCTION ledger_refuse_change()",
    ],
)
def test_the_application_can_change_nothing_of_the_past(signed_off, table, statement):
    with as_application(), pytest.raises(ProgrammingError, match=REFUSED), atomic():
        connection.cursor().execute(statement.format(table=table))

    assert Decision.objects.count() == 1
    assert Event.objects.filter(subject=signed_off.pk).exists()


@pytest.mark.parametrize(
    "statement",
    [
        "SET session_replication_role = replica",
        "CREATE TABLE mine (id int)",
        "CREATE OR REPLACE FUNCTION ledger_netstring(field text) RETURNS text LANGUAGE sql"
        " RETURN field",
        "ALTER ROLE assent_app SUPERUSER",
        "DELETE FROM ledger_transaction",
        "INSERT INTO django_migrations (app, name, applied) VALUES ('x', 'x', now())",
        "SELECT pg_read_file('/etc/passwd')",
        "COPY ledger_tenant TO PROGRAM 'true'",
        # What would put an end to the log.
        "INSERT INTO ledger_event (id, subject, tenant, seq, kind, from_state, to_state,"
        " principal, principal_name, via, reason, details, previous_hash, hash) VALUES"
        " (9223372036854775807, gen_random_uuid(), 'acme', 0, 'x', '', '', 'x', 'x', 'x', '', '{}',"
        " '', '')",
        "SELECT setval('ledger_event_id_seq', 9223372036854775806)",
        "INSERT INTO ledger_checkpoint (size, upto_event, root, note, public_key) VALUES"
        " (1000000000000, 1000000000000, '', '', '')",
        "INSERT INTO ledger_cosignature (checkpoint_id, witness, line) VALUES (1, 'x', 'x')",
        "INSERT INTO ledger_tile (level, index, hashes) VALUES (9, 9, '')",
        "LOCK TABLE ledger_tile IN ROW EXCLUSIVE MODE",
        "UPDATE ledger_tile SET hashes = hashes || decode(repeat('00', 32), 'hex')",
    ],
)
def test_the_application_cannot_help_itself_to_more(acme, statement):
    with as_application(), pytest.raises(ProgrammingError, match=REFUSED), atomic():
        connection.cursor().execute(statement)


def test_the_application_can_do_its_work(acme, alice, the_world):
    with as_application():
        row = propose("pay")
        coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web")
        execution.commit(row.pk)
        row.refresh_from_db()

    assert row.state == State.COMMITTED


def test_the_role_of_the_log_makes_checkpoints_and_does_the_work_of_the_sweeper(acme):
    with as_role(embedded_services.LOG):
        propose("pay")
        point = checkpoints.make()

    assert point is not None


def test_the_application_inserts_events_in_all_columns_but_the_id():
    listed = re.search(r"INSERT \((.*)\)", database_roles.EVENTS)[1].split(", ")

    assert {*listed, "id"} == {field.column for field in Event._meta.concrete_fields}


def test_the_log_has_a_role_of_its_own_or_none(settings):
    settings.OWNER_DATABASE_URL = "postgresql://postgres@db/assent"
    settings.DATABASE_URL = "postgresql://assent_app@db/assent"
    settings.LOG_DATABASE_URL = "postgresql://assent_app@db/assent"

    with pytest.raises(ImproperlyConfigured, match="nothing was granted"):
        database_roles.give_rights_to_all()


def test_the_application_erases_what_is_past_its_retention_and_no_more(signed_off):
    execution.commit(signed_off.pk)
    end_retention(signed_off.pk)
    with as_application():
        assert retention.erase_batch() == 1
        with pytest.raises(IntegrityError, match="only ever appended to"), atomic():
            Event.objects.filter(subject=signed_off.pk).update(reason="another")

    assert Decision.objects.get().reason == ""


def test_a_role_that_no_rights_would_bind_is_refused():
    with pytest.raises(ImproperlyConfigured, match="could rewrite the audit log"):
        database_roles.give_rights("postgres", keeps_log=True)


def test_our_functions_find_our_tables_whatever_the_search_path(signed_off):
    database_roles.fix_search_paths()
    with connection.cursor() as cursor:
        cursor.execute("SET search_path = pg_catalog")
        try:
            cursor.execute(
                "INSERT INTO public.ledger_event (subject, tenant, seq, kind, from_state, to_state,"
                " principal, principal_name, via, reason, details, previous_hash, hash) VALUES"
                " (gen_random_uuid(), 'acme', 0, 'x', '', '', 'x', 'x', 'x', '', '{}', '', '')"
                " RETURNING seq, length(hash)"
            )
            assert cursor.fetchone() == (1, 64)
        finally:
            cursor.execute("RESET search_path")


def migrated(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=110,
    )


@pytest.mark.slow
@pytest.mark.parametrize("has_log_role", [True, False])
def test_migrate_is_the_owner_and_makes_the_other_roles(has_log_role):
    owner = Product().environment["DATABASE_URL"].replace("assent_app", "postgres", 1)
    application, log = (
        owner.replace("postgres:", f"{role}:", 1) for role in ("new_app", "new_log")
    )
    of_log = {"ASSENT_LOG_DATABASE_URL": log if has_log_role else ""}

    ended = migrated("migrate", DATABASE_URL=application, ASSENT_OWNER_DATABASE_URL=owner, **of_log)

    assert ended.returncode == 0, ended.stderr
    roles = ["new_app", *(["new_log"] if has_log_role else [])]
    with connection.cursor() as cursor:
        for role in roles:
            cursor.execute(
                "SELECT has_column_privilege(%s, 'ledger_event', 'kind', 'INSERT'),"
                " has_column_privilege(%s, 'ledger_event', 'kind', 'UPDATE'),"
                " has_table_privilege(%s, 'ledger_checkpoint', 'INSERT')",
                [role] * 3,
            )
            assert cursor.fetchone() == (True, False, role == roles[-1])
            cursor.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


@pytest.mark.slow
def test_a_deployment_whose_role_may_rewrite_the_past_does_not_start():
    https = {"ASSENT_PUBLIC_URL": "https://assent.example", "ASSENT_ALLOWED_HOSTS": "a.example"}
    owner = Product().environment["DATABASE_URL"].replace("assent_app", "postgres", 1)

    ended = migrated("sweep", DATABASE_URL=owner, **https)

    assert ended.returncode == 78, ended.stderr
    assert "role postgres may change the audit log" in ended.stderr


@pytest.mark.slow
def test_a_deployment_in_which_every_process_may_write_the_log_does_not_start():
    https = {"ASSENT_PUBLIC_URL": "https://assent.example", "ASSENT_ALLOWED_HOSTS": "a.example"}
    log = Product().environment["ASSENT_LOG_DATABASE_URL"]

    ended = migrated("work", DATABASE_URL=log, ASSENT_AUDIT_KEY="", **https)

    assert ended.returncode == 78, ended.stderr
    assert "may write checkpoints, and so put an end to the audit log" in ended.stderr
