"""The engines of one test process: real PostgreSQL and Redis in a folder of their own.

Loaded by ``-p tests.services`` before Django reads its settings. Each xdist worker has its own.
``TEST_DATABASE_URL`` and ``TEST_REDIS_URL`` name servers to use instead.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path

import psycopg

from approvals.local import embedded_services

stack = ExitStack()


def start_engines() -> None:
    folder = Path(tempfile.mkdtemp(prefix="assent-test-"))
    folder.chmod(0o755)
    stack.callback(shutil.rmtree, folder, ignore_errors=True)
    os.environ["DATABASE_URL"] = os.environ.get("TEST_DATABASE_URL") or quick_postgres(folder)
    os.environ["REDIS_URL"] = os.environ.get("TEST_REDIS_URL") or embedded_services.start_redis(
        folder, stack
    )


def quick_postgres(folder: Path) -> str:
    """PostgreSQL that does not wait for the disk: no test cuts the machine's power."""
    url = embedded_services.start_postgres(folder / "postgres", stack)
    with psycopg.connect(url, autocommit=True) as connection:
        for setting in ("fsync", "synchronous_commit", "full_page_writes"):
            connection.execute(f"ALTER SYSTEM SET {setting} = off")
        connection.execute("SELECT pg_reload_conf()")
    return url


def set_environment() -> None:
    for name in [name for name in os.environ if name.startswith("ASSENT_")]:
        if name != "ASSENT_CHROMIUM":
            del os.environ[name]
    os.environ |= {
        "ASSENT_SECRET_KEY": "only for tests, and long enough to be accepted by the checks",
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
    }


def is_only_the_dispatcher() -> bool:
    """The process that hands out tests to xdist's workers runs none itself."""
    import sys

    return (
        "PYTEST_XDIST_WORKER" not in os.environ
        and not {"-n0", "-n=0"} & set(sys.argv)
        and not ("-n" in sys.argv and sys.argv[sys.argv.index("-n") + 1] == "0")
    )


set_environment()
if is_only_the_dispatcher():
    os.environ.setdefault("DATABASE_URL", "postgresql://nobody@localhost:1/none")
    os.environ.setdefault("REDIS_URL", "redis://localhost:1/0")
else:
    start_engines()
    atexit.register(stack.close)
