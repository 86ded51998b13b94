"""Passwords of the roles in the PostgreSQL that comes along, which is made without any.

They keep apart what has an address from what has not: a process that was given the application's
address cannot become the owner. They do not keep one user's processes from that user's files.
"""

from __future__ import annotations

import os
from pathlib import Path

import psycopg
from psycopg import sql

OWNER = "postgres"
RULES = "local all all scram-sha-256\n"  # it listens on no other address than its socket


def as_role(url: str, role: str, password: str = "") -> str:
    """The URL of the same database for another role."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{role}:{password}@{rest.rpartition('@')[2]}"


def require(folder: Path, url: str, password: str) -> None:
    """Nobody is let in without a password once the rules are read again; this one is the owner's.

    ``url`` is the owner's address, which is used as long as nobody needs one.
    """
    rules = folder / "pg_hba.conf"
    if rules.read_text() == RULES:
        return
    with psycopg.connect(url, autocommit=True) as session:
        # Hashed here: the server never sees it in clear text, and cannot log it.
        kept = session.pgconn.encrypt_password(password.encode(), OWNER.encode(), b"scram-sha-256")
        statement = sql.SQL("ALTER ROLE {} PASSWORD {}")
        session.execute(statement.format(sql.Identifier(OWNER), sql.Literal(kept.decode())))
        _replace(rules)


def _replace(rules: Path) -> None:
    """At once or not at all, and as the user that the server runs as."""
    before = rules.stat()
    fresh = rules.with_suffix(".new")
    fresh.write_text(RULES)
    fresh.chmod(0o600)
    os.chown(fresh, before.st_uid, before.st_gid)
    fresh.replace(rules)
