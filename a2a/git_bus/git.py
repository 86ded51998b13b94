"""The git program on a bare repository, of which nothing is ever checked out.

The repository belongs to strangers. Without a work tree there is nothing that hooks, filters,
symbolic links, submodules or odd paths could do; objects are verified when they arrive. The git
program is used, and no library, so that each call can be given a time and killed, and transports,
keys and signatures behave as everywhere. Nothing is read from the machine's own git settings.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
import threading
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

REGULAR_FILE = "100644"
HEAD = "refs/bus/head"  # the branch of the bus, as last fetched
WORK = "refs/bus/work"  # a commit of ours that may not be pushed yet
FETCH_TIMEOUT_S = 120.0
TIMEOUT_S = 30.0
COMMIT_ID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
# `git@host:path`, the short form of ssh.
SHORT_SSH = re.compile(r"[A-Za-z0-9._-]+@[A-Za-z0-9.-]+:[^\s]+")


class GitFailed(Exception):
    """A git call failed or took too long. The text is safe to show: it has no secrets."""


class NotThere(GitFailed):
    """The repository has no such branch."""


@dataclass(frozen=True, slots=True)
class Remote:
    """Where the repository is, and with what its server knows us.

    ``key`` is a private SSH key, ``known_hosts`` the lines of its server's keys; ``token`` is sent
    as HTTP basic password over https.
    """

    url: str
    branch: str
    key: str = ""
    known_hosts: str = ""
    token: str = ""
    allow_local: bool = False


@dataclass(frozen=True, slots=True)
class Entry:
    """One name in a folder of a commit; ``size`` in bytes, ``None`` for what is no file."""

    path: str
    mode: str
    object_id: str
    size: int | None

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def is_plain_file(self) -> bool:
        """Neither executable nor a symbolic link, folder or submodule."""
        return self.mode == REGULAR_FILE


@dataclass(frozen=True, slots=True)
class Author:
    """Who made a commit: named by the commit itself, and by its signature if that is good."""

    commit: str
    name: str
    email: str
    signature: str  # git's %G?: G good, N none, and others
    signer: str  # the principal of the allowed signer; only of a good signature
    key: str  # its fingerprint
    at: datetime  # by the committer's clock, which nothing proves

    @property
    def is_signed(self) -> bool:
        return self.signature == "G"


@dataclass(slots=True)
class Change:
    """The files of one commit of ours. ``renamed`` and ``written`` by path; all of them regular."""

    message: str
    renamed: dict[str, str] = field(default_factory=dict)
    written: dict[str, bytes] = field(default_factory=dict)
    removed: list[str] = field(default_factory=list)


def is_usable(url: str, *, allow_local: bool) -> bool:
    """Whether git may be given the URL: https, ssh, or a local path where that is allowed."""
    if url.startswith("-") or "\n" in url or "\0" in url:
        return False
    if url.startswith(("https://", "ssh://")) or SHORT_SSH.fullmatch(url):
        return "::" not in url
    return allow_local and url.startswith(("/", "file:///"))


class Repository:
    """A bus's repository: ``folder`` has its objects, a copy that can be made again."""

    def __init__(self, folder: Path, remote: Remote) -> None:
        self._folder, self._remote = folder, remote
        self._secrets: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> Repository:
        self._secrets = tempfile.TemporaryDirectory(prefix="assent-bus-")
        for name, text in (("key", self._remote.key), ("known_hosts", self._remote.known_hosts)):
            path = Path(self._secrets.name) / name
            path.touch(mode=0o600)
            path.write_text(text.strip() + "\n")
        if not (self._folder / "HEAD").exists():
            self._folder.mkdir(parents=True, exist_ok=True)
            self._run("init", "--quiet", "--bare", "--template=", str(self._folder))
        return self

    def __exit__(self, *_: object) -> None:
        assert self._secrets is not None
        self._secrets.cleanup()

    # --- to and from the server -------------------------------------------------------------------

    def fetch(self) -> str:
        """The newest commit of the branch. Raises ``GitFailed``; ``NotThere`` without a branch."""
        branch = f"+refs/heads/{self._remote.branch}:{HEAD}"
        options = ("--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules")
        try:
            self._run("fetch", *options, self._remote.url, branch, timeout_s=FETCH_TIMEOUT_S)
        except GitFailed as failure:
            if "couldn't find remote ref" in str(failure):
                raise NotThere(f"There is no branch {self._remote.branch!r}.") from None
            raise
        return self._run("rev-parse", HEAD).decode().strip()

    def push(self, commit: str) -> bool:
        """Make the commit the newest of the branch; ``False`` if another one came first."""
        target = f"{commit}:refs/heads/{self._remote.branch}"
        options = ("--quiet", "--porcelain", "--no-verify", "--no-recurse-submodules")
        try:
            self._run("push", *options, self._remote.url, target, timeout_s=FETCH_TIMEOUT_S)
        except GitFailed as failure:
            if _is_rejected(str(failure)):
                return False
            raise
        return True

    # --- reading ----------------------------------------------------------------------------------

    def folder(self, commit: str, path: str) -> list[Entry]:
        """What is in a folder of the commit, in the order of names; empty if it is not there."""
        listed = self._run("ls-tree", "-z", "-l", "--full-tree", commit, "--", f"{path}/")
        return [_entry(line) for line in listed.decode(errors="replace").split("\0") if line]

    def entries(self, commit: str, paths: Sequence[str]) -> dict[str, Entry]:
        """Those of the paths that the commit has."""
        if not paths:
            return {}
        listed = self._run("ls-tree", "-z", "-l", "--full-tree", commit, "--", *paths)
        found = (_entry(line) for line in listed.decode(errors="replace").split("\0") if line)
        return {entry.path: entry for entry in found}

    def read(self, entry: Entry) -> bytes:
        """The bytes of a file, whose size the caller has checked."""
        return self._run("cat-file", "blob", entry.object_id)

    def is_ancestor(self, earlier: str, later: str) -> bool:
        """Whether the history of ``later`` has ``earlier`` in it."""
        try:
            self._run("merge-base", "--is-ancestor", earlier, later)
        except GitFailed:
            return False
        return True

    def author_of(self, commit: str, path: str, allowed_signers: str = "") -> Author | None:
        """Who put the file there last, in the history of the commit."""
        form = "--format=%H%x00%an%x00%ae%x00%G?%x00%GS%x00%GF%x00%ct"
        with self._allowed(allowed_signers) as settings:
            text = self._run("log", "-1", form, commit, "--", path, settings=settings)
        fields = text.decode(errors="replace").strip("\n").split("\0")
        if len(fields) != 7:
            return None
        commit_id, name, email, signature, signer, key, at = (field[:200] for field in fields)
        is_good = signature == "G"
        return Author(
            commit_id,
            name,
            email,
            signature,
            signer if is_good else "",
            key if is_good else "",
            _time(at),
        )

    def message_of(self, commit: str) -> str:
        return self._run("log", "-1", "--format=%B", commit).decode(errors="replace")

    # --- writing ----------------------------------------------------------------------------------

    def commit(self, parent: str, change: Change, *, name: str, email: str) -> str:
        """A commit upon ``parent``, only here yet; its id."""
        stream = b"".join(_stream(parent, change, name, email))
        answer = self._run(
            "fast-import",
            "--quiet",
            "--force",
            "--date-format=now",
            "--cat-blob-fd=1",
            given=stream,
        )
        return answer.decode().strip()

    # --- the program ------------------------------------------------------------------------------

    def _run(
        self,
        *arguments: str,
        given: bytes = b"",
        timeout_s: float = TIMEOUT_S,
        settings: Mapping[str, str] | None = None,
    ) -> bytes:
        """What the call writes. Raises ``GitFailed`` with its last lines of errors."""
        with subprocess.Popen(
            ["git", *arguments],
            cwd=self._folder,
            env=self._environment(settings or {}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        ) as process:
            _calls.add(process)
            try:
                if _is_ending.is_set():
                    raise GitFailed(ENDED)
                written, errors = process.communicate(given, timeout=timeout_s)
            except subprocess.TimeoutExpired:
                raise GitFailed(f"git {arguments[0]} took more than {timeout_s:g} s.") from None
            finally:
                # Its helpers (ssh, a remote helper) have the same group and would live on.
                _kill(process)
                _calls.discard(process)
        if process.returncode:
            if _is_ending.is_set():
                raise GitFailed(ENDED)
            raise GitFailed(f"git {arguments[0]}: {self._shown(errors, written)}")
        return written

    def _shown(self, *outputs: bytes) -> str:
        text = (
            b" ".join(outputs).decode(errors="replace").replace(self._remote.token or "\0", "••••")
        )
        return " ".join(text.split())[-500:]

    def _environment(self, settings: Mapping[str, str]) -> dict[str, str]:
        assert self._secrets is not None
        secrets = Path(self._secrets.name)
        all_settings = {**SETTINGS, **self._credentials(), **settings}
        environment = {
            "PATH": os.pathsep.join(os.get_exec_path()),
            "HOME": str(secrets),
            "LC_ALL": "C",
            "GIT_DIR": str(self._folder),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_ASKPASS": "false",
            "SSH_ASKPASS": "false",
            "GIT_ALLOW_PROTOCOL": "https:ssh:file" if self._remote.allow_local else "https:ssh",
            "GIT_SSH_VARIANT": "ssh",
            "GIT_SSH_COMMAND": _ssh_command(secrets),
            "GIT_CONFIG_COUNT": str(len(all_settings)),
        }
        for place, (name, value) in enumerate(all_settings.items()):
            environment |= {f"GIT_CONFIG_KEY_{place}": name, f"GIT_CONFIG_VALUE_{place}": value}
        return environment

    def _credentials(self) -> dict[str, str]:
        """In the environment, as command lines can be seen by everybody on the machine."""
        if not self._remote.token:
            return {}
        encoded = b64encode(f"git:{self._remote.token}".encode()).decode()
        return {"http.extraHeader": f"Authorization: Basic {encoded}"}

    @contextmanager
    def _allowed(self, signers: str) -> Iterator[dict[str, str]]:
        """Settings with which git knows the allowed signers (a file of ssh-keygen's format)."""
        assert self._secrets is not None
        path = Path(self._secrets.name) / "allowed_signers"
        path.write_text(signers.strip() + "\n")
        yield {"gpg.ssh.allowedSignersFile": str(path)}


ENDED = "The process was told to stop; the next one repeats the pass."
_calls: set[subprocess.Popen[bytes]] = set()
_is_ending = threading.Event()


def end_calls() -> None:
    """Kill the calls of all threads, and let no other begin: this process ends."""
    _is_ending.set()
    for process in list(_calls):
        _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


# Settings of every call; nothing comes from files.
SETTINGS = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "core.alternateRefsCommand": "true",
    "protocol.allow": "never",
    "protocol.https.allow": "always",
    "protocol.ssh.allow": "always",
    "protocol.file.allow": "always",  # GIT_ALLOW_PROTOCOL decides
    "http.followRedirects": "false",
    "http.lowSpeedLimit": "1000",  # bytes a second
    "http.lowSpeedTime": "20",  # seconds
    "transfer.fsckObjects": "true",
    "fetch.recurseSubmodules": "false",
    "fetch.writeCommitGraph": "false",
    "submodule.recurse": "false",
    "credential.helper": "",
    "gpg.program": "false",
    "safe.bareRepository": "explicit",
    "fastimport.unpackLimit": "1000",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "core.quotePath": "false",
}
REJECTIONS = ("[rejected]", "fetch first", "non-fast-forward", "cannot lock ref", "stale info")


def _is_rejected(answer: str) -> bool:
    """Whether a push was refused because the branch had moved."""
    return any(words in answer for words in REJECTIONS)


def _ssh_command(secrets: Path) -> str:
    options = {
        "IdentitiesOnly": "yes",
        "BatchMode": "yes",
        "StrictHostKeyChecking": "yes",
        "UserKnownHostsFile": str(secrets / "known_hosts"),
        "GlobalKnownHostsFile": os.devnull,
        "ConnectTimeout": "10",
        "ServerAliveInterval": "10",
        "ServerAliveCountMax": "3",
    }
    words = [f"-o {name}={value}" for name, value in options.items()]
    return " ".join(["ssh", "-F", os.devnull, "-i", str(secrets / "key"), *words])


def _time(seconds: str) -> datetime:
    """A time that a stranger has written; now, if it is none."""
    try:
        return min(datetime.fromtimestamp(int(seconds), UTC), datetime.now(UTC))
    except (ValueError, OverflowError, OSError):
        return datetime.now(UTC)


def _entry(line: str) -> Entry:
    """One line of ``git ls-tree -l``: ``<mode> <type> <object> <size>\\t<path>``."""
    terms, _, path = line.partition("\t")
    mode, _, object_id, size = terms.split()
    return Entry(path, mode, object_id, int(size) if size.isdecimal() else None)


def _stream(parent: str, change: Change, name: str, email: str) -> Iterable[bytes]:
    """The commit as git fast-import reads it; its id is asked for at the end."""
    yield f"commit {WORK}\nmark :1\n".encode()
    yield f"committer {_plain(name)} <{_plain(email)}> now\n".encode()
    yield from _data(change.message.encode())
    yield f"from {parent}\n".encode()
    for path in change.removed:
        yield f"D {path}\n".encode()
    for source, target in change.renamed.items():
        yield f"R {source} {target}\n".encode()
    for path, content in change.written.items():
        yield f"M {REGULAR_FILE} inline {path}\n".encode()
        yield from _data(content)
    yield b"\nget-mark :1\ndone\n"


def _data(content: bytes) -> Iterable[bytes]:
    yield f"data {len(content)}\n".encode()
    yield content + b"\n"


def _plain(text: str) -> str:
    return re.sub(r"[<>\n\0]", " ", text).strip() or "Assent"
