"""Calls of the git program: without this machine's settings, and limited in time, memory and size.

The git program is used, and no library, so that each call can be killed, and transports, keys and
signatures behave as everywhere. Both the repository and its server may be hostile.
"""

from __future__ import annotations

import os
import re
import selectors
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

TIMEOUT_S = 30.0
TICK_S = 0.25
GRACE_S = 0.5  # to remove its lock files, after which it is killed
LEFTOVER_S = 900.0  # older than any call can be
MOST_OUTPUT = 64 * 1024 * 1024  # bytes
MOST_ERRORS = 4096  # bytes, the last ones
LARGEST_FETCH = 1024 * 1024 * 1024  # bytes that one call may add to the repository
LARGEST_IN_MEMORY = "128m"  # of one object; larger files are streamed, larger deltas refused
SHOWN = 500  # characters of an error
ENDED = "The process was told to stop; the next one repeats the pass."
# `git@host:path`, the short form of ssh.
SHORT_SSH = re.compile(r"[A-Za-z0-9._][A-Za-z0-9._-]*@[A-Za-z0-9][A-Za-z0-9.-]*:[^\s:-][^\s]*")
LONG = re.compile(r"(?:https|ssh)://(?P<user>[^/\s@]*@)?[A-Za-z0-9\[][^\s]*")
LEFTOVERS = (
    "objects/pack/tmp_*",
    "objects/pack/.tmp-*",
    "objects/tmp_objdir-*",
    "objects/*/tmp_obj_*",
    "fast_import_crash_*",
    "shallow_*",
    "*.lock",
    "refs/bus/*.lock",
)


class GitFailed(Exception):
    """A git call failed or took too long. The text is safe to show: it has no secrets."""


class TooManyNames(GitFailed):
    """A folder has more entries than are read."""


@dataclass(frozen=True, slots=True)
class Remote:
    """The address of the repository, and the credentials by which its server knows us.

    ``key`` is a private SSH key, ``known_hosts`` the lines of its server's keys; ``token`` is sent
    as HTTP basic password over https. By ``signing_key``, also an SSH key, our commits are signed.
    ``allow_local``: also paths and http, on this machine only.
    """

    url: str
    branch: str
    key: str = ""
    known_hosts: str = ""
    token: str = ""
    allow_local: bool = False
    signing_key: str = ""


def is_usable(url: str, *, allow_local: bool) -> bool:
    """True if git may be given the URL: https, ssh, or a local path where that is allowed.

    A URL with a password is refused: it would be on command lines and in error messages.
    """
    if url.startswith("-") or "::" in url or not url.isprintable():
        return False
    if long := LONG.fullmatch(url):
        return ":" not in (long["user"] or "")
    if SHORT_SSH.fullmatch(url) and "://" not in url:
        return True
    return allow_local and url.startswith(("/", "file:///", "http://127.0.0.1:"))


class Program:
    """The git program for one repository; a context manager that keeps secrets in files."""

    def __init__(self, folder: Path, remote: Remote) -> None:
        self.folder, self._remote = folder, remote
        self._secrets: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> Program:
        if not is_usable(self._remote.url, allow_local=self._remote.allow_local):
            raise GitFailed("The URL is not one of https:// or ssh:// without a password.")
        parent = self.folder.parent
        parent.mkdir(parents=True, exist_ok=True)
        _remove_old(parent.glob(f"{self.folder.name}.secrets-*"))
        # Beside the repository: what a killed process leaves is removed by the next one.
        self._secrets = tempfile.TemporaryDirectory(
            prefix=f"{self.folder.name}.secrets-", dir=parent
        )
        for name, text in (("key", self._remote.key), ("known_hosts", self._remote.known_hosts)):
            self.keep_secret(name, text)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._secrets is not None
        self._secrets.cleanup()

    @property
    def secrets(self) -> Path:
        """A folder that nobody else may read, until the end."""
        assert self._secrets is not None
        return Path(self._secrets.name)

    def keep_secret(self, name: str, text: str) -> Path:
        path = self.secrets / name
        path.touch(mode=0o600)
        path.write_text(text.strip() + "\n")
        return path

    def run(
        self,
        *arguments: str,
        given: bytes = b"",
        timeout_s: float = TIMEOUT_S,
        most: int = MOST_OUTPUT,
        settings: Mapping[str, str] | None = None,
    ) -> bytes:
        """The output of the call, at most ``most`` bytes. Raises ``GitFailed``."""
        before = self._unfinished()

        def added() -> set[Path]:
            return self._unfinished() - before

        limits = Limits(arguments[0], time.monotonic() + timeout_s, timeout_s, most, added)
        try:
            process = self._start(arguments, settings or {})
        except OSError as error:
            raise GitFailed(f"git cannot be run: {error.strerror}.") from None
        with process:
            try:
                answer, errors = _converse(process, given, limits)
            finally:
                _end(process)
                for path in added():  # else each attempt would leave as much again
                    path.unlink(missing_ok=True)
        if process.returncode:
            raise GitFailed(f"git {arguments[0]}: {self._shown(errors, answer[-MOST_ERRORS:])}")
        return answer

    def remove_leftovers(self) -> None:
        """Remove the files of calls that were killed with their process."""
        for pattern in LEFTOVERS:
            _remove_old(self.folder.glob(pattern))

    def _start(
        self, arguments: tuple[str, ...], settings: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            ["git", *arguments],
            cwd=self.folder if self.folder.is_dir() else self.folder.parent,
            env=self._environment(settings),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def _unfinished(self) -> set[Path]:
        """Packs that are being received."""
        return set((self.folder / "objects" / "pack").glob("tmp_*"))

    def _shown(self, *outputs: bytes) -> str:
        """In one line, without control characters, secrets and paths of this machine."""
        text = b" ".join(outputs).decode(errors="replace")
        for secret in self._hidden():
            text = text.replace(secret, "••••")
        plain = "".join(each if each.isprintable() else " " for each in text)
        return " ".join(plain.split())[-SHOWN:]

    def _hidden(self) -> list[str]:
        lines = f"{self._remote.key}\n{self._remote.signing_key}".split("\n")
        return [each for each in (self._remote.token, self._basic(), *lines) if len(each) >= 4]

    def _basic(self) -> str:
        if not self._remote.token:
            return ""
        return b64encode(f"git:{self._remote.token}".encode()).decode()

    # --- what git knows ---------------------------------------------------------------------------

    def _environment(self, settings: Mapping[str, str]) -> dict[str, str]:
        """Settings are in the environment: command lines can be read by everybody."""
        all_settings = {**SETTINGS, **self._credentials(), **settings}
        local = ":file:http" if self._remote.allow_local else ""
        environment = {
            "PATH": os.pathsep.join(os.get_exec_path()),
            "HOME": str(self.secrets),
            "LC_ALL": "C",
            "TZ": "UTC",
            "GIT_DIR": str(self.folder),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_LITERAL_PATHSPECS": "1",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_ALLOC_LIMIT": LARGEST_IN_MEMORY,
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_ASKPASS": "false",
            "SSH_ASKPASS": "false",
            "GIT_ALLOW_PROTOCOL": f"https:ssh{local}",
            "GIT_SSH_VARIANT": "ssh",
            "GIT_SSH_COMMAND": _ssh_command(self.secrets),
            "GIT_CONFIG_COUNT": str(len(all_settings)),
        }
        for place, (name, value) in enumerate(all_settings.items()):
            environment |= {f"GIT_CONFIG_KEY_{place}": name, f"GIT_CONFIG_VALUE_{place}": value}
        return environment

    def _credentials(self) -> dict[str, str]:
        if not self._remote.token:
            return {}
        return {"http.extraHeader": f"Authorization: Basic {self._basic()}"}


# Settings of every call; nothing comes from files.
SETTINGS = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "core.alternateRefsCommand": "true",
    "core.bigFileThreshold": "16m",
    "core.compression": "1",
    "core.quotePath": "false",
    "core.packedGitWindowSize": "32m",
    "pack.threads": "1",
    "http.followRedirects": "false",
    "http.lowSpeedLimit": "1000",  # bytes a second
    "http.lowSpeedTime": "20",  # seconds
    "transfer.fsckObjects": "true",
    "transfer.credentialsInUrl": "die",
    # One pack for each fetch and commit: loose objects of large folders take longer to write.
    "fetch.unpackLimit": "1",
    "fastimport.unpackLimit": "1",
    "fetch.recurseSubmodules": "false",
    "fetch.writeCommitGraph": "false",
    "submodule.recurse": "false",
    "credential.helper": "",
    "gpg.program": "false",
    "safe.bareRepository": "explicit",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "repack.writeBitmaps": "false",
}


def _ssh_command(secrets: Path) -> str:
    options = {
        "IdentitiesOnly": "yes",
        "BatchMode": "yes",
        "StrictHostKeyChecking": "yes",
        "UserKnownHostsFile": f"'{secrets / 'known_hosts'}'",
        "GlobalKnownHostsFile": os.devnull,
        "ConnectTimeout": "10",
        "ServerAliveInterval": "10",
        "ServerAliveCountMax": "3",
        "ForwardAgent": "no",
        "ClearAllForwardings": "yes",
    }
    words = [f"-o {name}={value}" for name, value in options.items()]
    return " ".join(["ssh", "-F", os.devnull, "-i", f"'{secrets / 'key'}'", *words])


# --- one call -------------------------------------------------------------------------------------

_is_ending = threading.Event()


def end_calls() -> None:
    """End the calls of all threads, and let no other begin: this process ends."""
    _is_ending.set()


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one call. ``deadline`` is of the monotonic clock."""

    name: str
    deadline: float
    timeout_s: float
    most: int  # bytes that it writes
    unfinished: Callable[[], Iterable[Path]]  # files that it is adding to the repository

    def check(self, written: int) -> None:
        if _is_ending.is_set():
            raise GitFailed(ENDED)
        if time.monotonic() > self.deadline:
            raise GitFailed(f"git {self.name} took more than {self.timeout_s:g} s.")
        if written > self.most:
            raise GitFailed(f"git {self.name} wrote more than {self.most:,} bytes.")
        if sum(map(_size, self.unfinished())) > LARGEST_FETCH:
            raise GitFailed(f"git {self.name} received more than {LARGEST_FETCH:,} bytes.")


def _converse(
    process: subprocess.Popen[bytes], given: bytes, limits: Limits
) -> tuple[bytes, bytes]:
    """The bytes that the process writes to its two outputs, of the errors the end only."""
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    answer, errors, rest = bytearray(), bytearray(), memoryview(given)
    with selectors.DefaultSelector() as open_ends:
        open_ends.register(process.stdout, selectors.EVENT_READ, answer)
        open_ends.register(process.stderr, selectors.EVENT_READ, errors)
        os.set_blocking(process.stdin.fileno(), False)
        open_ends.register(process.stdin, selectors.EVENT_WRITE)
        while open_ends.get_map():
            ready = open_ends.select(TICK_S)
            for end, _ in ready:
                if end.fileobj is process.stdin:
                    rest = rest[_feed(end.fd, rest) :]
                    is_over = not rest
                else:
                    received = os.read(end.fd, 65536)
                    end.data.extend(received)
                    is_over = not received
                if is_over:
                    open_ends.unregister(end.fileobj)
                    end.fileobj.close()  # type: ignore[union-attr]
            del errors[:-MOST_ERRORS]
            limits.check(len(answer))
    with suppress(subprocess.TimeoutExpired):
        process.wait(max(0.0, limits.deadline - time.monotonic()))
    if process.poll() is None:
        limits.check(len(answer))
        raise GitFailed(f"git {limits.name} took more than {limits.timeout_s:g} s.")
    return bytes(answer), bytes(errors)


def _feed(descriptor: int, rest: memoryview) -> int:
    """The number of bytes of the rest that were taken; all of it if nobody reads any more."""
    try:
        return os.write(descriptor, rest[:65536])
    except BlockingIOError:
        return 0
    except BrokenPipeError:
        return len(rest)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process and its helpers (ssh, a remote helper), which have the same group."""
    with suppress(ProcessLookupError, PermissionError):
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                process.wait(GRACE_S)
        os.killpg(process.pid, signal.SIGKILL)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _remove_old(paths: Iterable[Path]) -> None:
    for path in paths:
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > LEFTOVER_S:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
