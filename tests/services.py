"""The engines of one test process: real PostgreSQL and Redis in a folder of their own.

Loaded by ``-p tests.services`` before Django reads its settings, which need the addresses; the
engines start when the first test asks for them (``start_engines``). Each xdist worker has its own.
``TEST_DATABASE_URL`` and ``TEST_REDIS_URL`` name servers to use instead.

However the test process ends, the product's own guard stops what it and its tests have started.
"""

from __future__ import annotations

import atexit
import os
import secrets
import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path

import psycopg

from approvals.local import embedded_services
from approvals.local.guard import Guard

folder = Path(tempfile.gettempdir()) / f"assent-test-{secrets.token_hex(4)}"
DATABASE_URL = f"postgresql://postgres:@/assent?host={folder / 'postgres'}"
REDIS_URL = f"unix://{folder / 'redis.sock'}?db=0"
# Longer than that of a supervisor which a test runs: it stops its own programs first.
guard = Guard(patience_s=20)
have_started = False
_guarded: set[int] = set()


def start_engines() -> None:
    """Start what the environment does not name, at the addresses that Django already has."""
    global have_started
    if have_started:
        return
    have_started = True
    guard.watch(())
    stack = ExitStack()
    atexit.register(guard.dismiss)
    atexit.register(stack.close)
    folder.mkdir(mode=0o755)
    stack.callback(shutil.rmtree, folder, ignore_errors=True)
    if os.environ["DATABASE_URL"] == DATABASE_URL:
        start_quick_postgres(stack)
    if os.environ["REDIS_URL"] == REDIS_URL:
        started = embedded_services.start_redis(folder, stack)
        assert started == REDIS_URL, "the path of its socket is too long; set TMPDIR"
        watch(int((folder / "redis.pid").read_text().partition(":")[0]))


def start_quick_postgres(stack: ExitStack) -> None:
    """PostgreSQL that does not wait for the disk: no test cuts the machine's power."""
    started = embedded_services.start_postgres(folder / "postgres", stack)
    assert started == DATABASE_URL, "the path of its socket is too long; set TMPDIR"
    watch(int((folder / "postgres" / "postmaster.pid").read_text().split()[0]))
    with psycopg.connect(DATABASE_URL, autocommit=True) as connection:
        for setting in ("fsync", "synchronous_commit", "full_page_writes"):
            connection.execute(f"ALTER SYSTEM SET {setting} = off")
        connection.execute("SELECT pg_reload_conf()")


def watch(group: int) -> None:
    """Have the guard stop this group: Redis wipes its mark, and some systems have no ``/proc``."""
    _guarded.add(group)
    guard.watch(_guarded)


def unwatch(group: int) -> None:
    _guarded.discard(group)
    guard.watch(_guarded)


def set_environment() -> None:
    for name in [name for name in os.environ if name.startswith("ASSENT_")]:
        if name not in {"ASSENT_CHROMIUM", "ASSENT_OPTIONAL_APPS"}:
            del os.environ[name]
    os.environ |= {
        "DATABASE_URL": os.environ.get("TEST_DATABASE_URL") or DATABASE_URL,
        "REDIS_URL": os.environ.get("TEST_REDIS_URL") or REDIS_URL,
        "ASSENT_SECRET_KEY": "only for tests, and long enough to be accepted by the checks",
        "ASSENT_CHANNELS_KEY": "77" * 32,
        "ASSENT_AUDIT_KEY": "11" * 32,
        "ASSENT_CARD_KEY": "22" * 32,
        "ASSENT_PUSH_KEY": "33" * 32,
        "ASSENT_TOOL_KEY": "55" * 32,
        "ASSENT_PERMIT_KEY": "66" * 32,
        "ASSENT_ENCRYPTION_KEYS": "44" * 32,
        "ASSENT_TOOL_APPS": "tests.toolbox,examples.tools",
        "ASSENT_LOG_LEVEL": "ERROR",
        "ASSENT_PUBLIC_URL": "http://localhost:8000",
        # Playwright runs an event loop in the thread of the test.
        "DJANGO_ALLOW_ASYNC_UNSAFE": "1",
        **guard.mark,
    }


set_environment()
