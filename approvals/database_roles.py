"""Roles in PostgreSQL: an owner that migrates, the application, which may do less, and the log's.

The application may append to what proves the past and change none of it: no UPDATE or DELETE of
events and decisions (but for reasons that retention empties, and the mark of a
withdrawn approval), no TRUNCATE, no DDL, no trigger
turned off, and no event with an id of its choice. ``RIGHTS`` is the whole list; a table that is
not in it does not exist for the application. The sweeper connects as the role of the log, which
may besides write what is in ``LOG``: so no other process can put an end to the log.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import dj_database_url
from django.apps import apps
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import connection
from django.db.transaction import atomic
from psycopg import sql

READ = "SELECT"
APPEND = "SELECT, INSERT"
# By column, without the id: the log covers events in the order of ids that the database gives.
EVENTS = (
    "SELECT, UPDATE (reason, reason_source), INSERT (subject, transaction_id, tenant, seq, kind,"
    " from_state, to_state, principal, principal_name, via, reason, reason_source, reason_digest,"
    " details, at, previous_hash, hash)"
)  # a trigger lets reasons be emptied when retention is over
# A trigger lets it be emptied when retention is over, and an approval be withdrawn.
DECISIONS = "SELECT, INSERT, UPDATE (reason, is_withdrawn)"
KEEP = "SELECT, INSERT, UPDATE"
# Put, and lifted once, which a trigger keeps.
BRAKES = "SELECT, INSERT, UPDATE (lifted_at, lifted_by, lifted_by_name, counted_at)"
CHANGE = "SELECT, INSERT, UPDATE, DELETE"

RIGHTS = {
    # What proves the past.
    "ledger_event": EVENTS,
    "ledger_decision": DECISIONS,
    "ledger_revision": "SELECT, INSERT, UPDATE (content)",  # a trigger lets it be emptied only
    "ledger_evidence": "SELECT, INSERT, DELETE",  # a trigger lets it be deleted after its erasure
    "ledger_checkpoint": READ,
    "ledger_cosignature": READ,
    "ledger_tile": READ,
    "ledger_policydocument": APPEND,
    "ledger_brake": BRAKES,
    "ledger_grant": "SELECT, INSERT, UPDATE (ended_at, ended_by, ended_by_name)",
    "ledger_charge": "SELECT, INSERT, UPDATE (released_at)",
    "ledger_toolversion": APPEND,
    "ledger_reading": APPEND,
    "approvals_username": APPEND,
    # What goes on, and is never thrown away.
    "ledger_transaction": KEEP,
    "ledger_idempotencykey": KEEP,
    "ledger_permit": KEEP,
    "ledger_searchterm": "SELECT, INSERT, DELETE",  # by triggers; it proves nothing
    "ledger_delivery": KEEP,
    "ledger_review": KEEP,
    "ledger_changerequest": KEEP,
    "ledger_group": KEEP,
    "ledger_groupmember": KEEP,
    "ledger_budget": KEEP,
    "ledger_sweeperlease": KEEP,
    "ledger_siemposition": KEEP,
    "ledger_agent": KEEP,
    "a2a_task": KEEP,
    "a2a_message": KEEP,
    "a2a_artifact": KEEP,
    "a2a_question": KEEP,
    "approvals_notice": KEEP,
    "auth_user": KEEP,
    # What people arrange.
    "ledger_tenant": CHANGE,
    "ledger_ruleset": CHANGE,
    "ledger_registeredtool": CHANGE,
    "ledger_credential": CHANGE,
    "ledger_mcpupstream": CHANGE,
    "ledger_upstreamtool": CHANGE,
    "ledger_watched": CHANGE,
    "ledger_silentaddress": CHANGE,
    "ledger_agenttoken": CHANGE,
    "ledger_owner": CHANGE,
    "ledger_limitrefusal": CHANGE,
    # Counted from the events, and counted anew by a command; they prove nothing.
    "ledger_usageday": CHANGE,
    "ledger_usagehour": CHANGE,
    "ledger_usagedecider": CHANGE,
    "ledger_subjectuse": CHANGE,
    "ledger_usagecursor": CHANGE,
    "a2a_skill": CHANGE,
    "a2a_remoteagent": CHANGE,
    "a2a_mirror": CHANGE,
    "a2a_pushconfig": CHANGE,
    "approvals_membership": CHANGE,
    "approvals_preferences": CHANGE,
    "approvals_pace": CHANGE,
    "approvals_savedview": CHANGE,
    "approvals_setaside": CHANGE,
    "approvals_visit": CHANGE,
    "approvals_notificationsettings": CHANGE,
    "approvals_pushsubscription": CHANGE,
    "approvals_shownnotification": CHANGE,
    "approvals_companyidentity": CHANGE,
    "approvals_authenticatorapp": CHANGE,
    "approvals_recoverycodes": CHANGE,
    "approvals_passkey": CHANGE,
    "approvals_usersession": CHANGE,
    "approvals_signinlink": KEEP,
    "approvals_slackworkspace": CHANGE,
    "approvals_slackworkspace_tenants": CHANGE,
    "approvals_slackroute": CHANGE,
    "approvals_slackidentity": CHANGE,
    "approvals_slacklinkrequest": CHANGE,
    "approvals_slackmessage": CHANGE,
    "approvals_slackcommand": CHANGE,
    # Django's own.
    "auth_user_groups": CHANGE,
    "auth_user_user_permissions": CHANGE,
    "auth_group": CHANGE,
    "auth_group_permissions": CHANGE,
    "auth_permission": READ,
    "django_content_type": READ,
    "django_admin_log": CHANGE,
    "django_session": CHANGE,
    "django_migrations": READ,
}
LOG = {
    "ledger_checkpoint": APPEND,
    "ledger_cosignature": APPEND,
    "ledger_tile": KEEP,  # grows; a trigger lets nothing in it change
}
OF_OPTIONAL_APPS = {
    "a2a.doors.git_bus": {
        "git_bus_gitbus": KEEP,
        "git_bus_busrequest": KEEP,
        "git_bus_busmethod": CHANGE,
    },
    "a2a.doors.humanlayer": {"humanlayer_binding": KEEP, "humanlayer_boundcall": KEEP},
    "approvals.oauth": {
        "oauth_client": CHANGE,
        "oauth_connection": KEEP,
        "oauth_code": CHANGE,
        "oauth_accesstoken": CHANGE,
        "oauth_refreshtoken": CHANGE,
        "oauth_issuer": KEEP,
        "oauth_issuerrule": CHANGE,
        "oauth_usedassertion": CHANGE,
        # Of the toolkit; nothing stands in them.
        "oauth2_provider_idtoken": READ,
        "oauth2_provider_devicegrant": READ,
    },
    "approvals.scim": {"scim_entry": KEEP},
}


def give_rights_to_all() -> None:
    """To the processes' roles; to none where they use the owner's own (tests, a first look).

    Where the log has no role of its own, the application keeps it.
    """
    if not settings.OWNER_DATABASE_URL:
        return
    application = dj_database_url.parse(settings.DATABASE_URL)
    if not settings.LOG_DATABASE_URL:
        give_rights(application["USER"], application["PASSWORD"], keeps_log=True)
        return
    log = dj_database_url.parse(settings.LOG_DATABASE_URL)
    if log["USER"] == application["USER"]:
        raise ImproperlyConfigured(
            f"DATABASE_URL and ASSENT_LOG_DATABASE_URL name the same role, {log['USER']}. Name "
            "another one for the log; nothing was granted."
        )
    give_rights(application["USER"], application["PASSWORD"], keeps_log=False)
    give_rights(log["USER"], log["PASSWORD"], keeps_log=True)


@contextmanager
def as_owner() -> Iterator[None]:
    """This process' connection is the owner's, if it was told of one."""
    if not settings.OWNER_DATABASE_URL:
        yield
        return
    before = connection.settings_dict
    owner: dict[str, Any] = dict(dj_database_url.parse(settings.OWNER_DATABASE_URL))
    names = ("NAME", "USER", "PASSWORD", "HOST", "PORT")
    options = before["OPTIONS"] | owner.get("OPTIONS", {})
    connection.close()
    connection.settings_dict = before | {n: owner[n] for n in names} | {"OPTIONS": options}
    try:
        yield
    finally:
        connection.close()
        connection.settings_dict = before


def give_rights(role: str, password: str = "", *, keeps_log: bool) -> None:
    """Make the role, if there is none, and let it do what ``RIGHTS`` says and nothing else.

    One that ``keeps_log`` may do what ``LOG`` says as well.

    Raises ``ImproperlyConfigured`` for a role that would not be bound by them.
    """
    with atomic(), connection.cursor() as cursor:
        _ensure_role(cursor, role, password)
        cursor.execute("SELECT current_schema()")
        names = {"schema": sql.Identifier(cursor.fetchone()[0]), "role": sql.Identifier(role)}
        for text in (
            "GRANT USAGE ON SCHEMA {schema} TO {role}",
            "REVOKE ALL ON ALL TABLES IN SCHEMA {schema} FROM {role}",
        ):
            _execute(cursor, sql.SQL(text).format(**names))
        log = LOG if keeps_log else {}
        for table, rights in {**RIGHTS, **of_optional_apps(), **of_tool_apps(), **log}.items():
            grant = sql.SQL("GRANT {rights} ON {schema}.{table} TO {role}")
            which = {"rights": sql.SQL(rights), "table": sql.Identifier(table)}
            _execute(cursor, grant.format(**which, **names))


def of_optional_apps() -> dict[str, str]:
    installed = (rights for app, rights in OF_OPTIONAL_APPS.items() if apps.is_installed(app))
    return {table: right for rights in installed for table, right in rights.items()}


def of_tool_apps() -> dict[str, str]:
    """The tables of the tools' authors are their own business."""
    return {
        model._meta.db_table: CHANGE
        for model in apps.get_models(include_auto_created=True)
        if apps.get_app_config(model._meta.app_label).name in settings.TOOL_APPS
        and model._meta.managed
    }


def fix_search_paths() -> None:
    """Fix the search path of our functions, so that they also work while a dump is restored."""
    with connection.cursor() as cursor:
        cursor.execute(_OUR_FUNCTIONS)
        for (statement,) in cursor.fetchall():
            cursor.execute(statement)


# Without those in SQL: they name no table, and could not be inlined any more.
_OUR_FUNCTIONS = """
    SELECT format('ALTER FUNCTION %s SET search_path = %I, pg_temp', p.oid::regprocedure, n.nspname)
    FROM pg_proc p
    JOIN pg_namespace n ON n.oid = p.pronamespace
    JOIN pg_language l ON l.oid = p.prolang
    WHERE n.nspname = current_schema() AND l.lanname = 'plpgsql'
      AND p.proname ~ '^(ledger|a2a|approvals)_'
      AND p.proconfig IS NULL
"""


def _ensure_role(cursor: Any, role: str, password: str) -> None:
    cursor.execute(
        "SELECT r.rolsuper OR r.rolcreaterole OR pg_has_role(r.oid, current_user::regrole, 'USAGE')"
        " FROM pg_roles r WHERE r.rolname = %s",
        [role],
    )
    role_row = cursor.fetchone()
    if role_row is None:
        statement = sql.SQL("CREATE ROLE {} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE")
        _execute(cursor, statement.format(sql.Identifier(role)))
    elif role_row[0]:
        raise ImproperlyConfigured(
            f"The role {role} of DATABASE_URL is a superuser, makes roles, or may do all that the "
            "owner may: it could rewrite the audit log. Name another one; nothing was granted."
        )
    if password:
        statement = sql.SQL("ALTER ROLE {} PASSWORD {}")
        _execute(cursor, statement.format(sql.Identifier(role), sql.Literal(password)))


def _execute(cursor: Any, statement: sql.Composed) -> None:
    cursor.execute(statement.as_string(None))
