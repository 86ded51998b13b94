"""Repositories, servers and settings that were made to do harm, and what they cannot do."""

from __future__ import annotations

import base64
import os
import resource
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from a2a.doors.git_bus.repository import git, program
from a2a.doors.git_bus.repository.git import LEFT_OUT, Change, GitFailed, Remote, Repository
from tests.a2a.git_bus.conftest import Participant

WHO = {"name": "Assent", "email": "assent@assent.invalid"}
TOKEN = "token-that-nobody-may-see"


@pytest.fixture
def upstream(participant: Participant) -> Path:
    return participant.folder.parent / "upstream.git"


@pytest.fixture
def ours(upstream: Path, tmp_path: Path) -> Iterator[Repository]:
    with Repository(tmp_path / "ours.git", Remote(str(upstream), "main", allow_local=True)) as ours:
        yield ours


@pytest.fixture
def touched(tmp_path: Path) -> Path:
    """A file that no test's victim may make."""
    return tmp_path / "touched"


def make_script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def work(ours: Repository) -> str:
    """All that a pass does: fetch, read, commit, push, ask for authors, tidy."""
    head = ours.fetch()
    for entry in ours.folder(head, "inbox"):
        if entry.size is not None and entry.size < 1000:
            ours.read(entry)
        ours.author_of(head, entry.path, "ann@partner.example ssh-ed25519 AAAA")
    head = ours.commit(head, Change("x", written={f"outbox/res_{time.time_ns()}": b"{}"}), **WHO)
    assert ours.push(head)
    ours.tidy()
    return head


# --- programs that must not run -------------------------------------------------------------------

HOOKS = ("reference-transaction", "pre-push", "post-checkout", "post-merge", "pre-auto-gc")
HOOKS += ("pre-commit", "commit-msg", "post-commit", "fsmonitor-watchman", "proc-receive")


def test_no_hook_runs(ours, touched, tmp_path, monkeypatch):
    everywhere = tmp_path / "hooks"
    for hook in HOOKS:
        make_script(everywhere / hook, f"touch {touched}")
        make_script(tmp_path / "ours.git" / "hooks" / hook, f"touch {touched}")
    (tmp_path / ".gitconfig").write_text(f"[core]\n\thooksPath = {everywhere}\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_TEMPLATE_DIR", str(everywhere.parent))

    work(ours)

    assert not touched.exists()


def test_the_machines_settings_are_not_read(ours, touched, tmp_path, monkeypatch, upstream):
    attack = make_script(tmp_path / "attack", f"touch {touched}")
    settings = (
        f'[url "/nowhere/"]\n\tinsteadOf = {upstream.parent}/\n'
        f"[core]\n\tsshCommand = {attack}\n\tfsmonitor = {attack}\n\tgitProxy = {attack}\n"
        f"[credential]\n\thelper = !{attack}\n[gpg]\n\tprogram = {attack}\n"
        f'[gpg "ssh"]\n\tprogram = {attack}\n[uploadpack]\n\tpackObjectsHook = {attack}\n'
    )
    for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"):
        monkeypatch.setenv(name, str(tmp_path / "settings"))
    for name in ("GIT_SSH_COMMAND", "GIT_ASKPASS", "GIT_EXTERNAL_DIFF", "GIT_PROXY_COMMAND"):
        monkeypatch.setenv(name, str(attack))
    for name, value in {"COUNT": "1", "KEY_0": "core.pager", "VALUE_0": str(attack)}.items():
        monkeypatch.setenv(f"GIT_CONFIG_{name}", value)
    (tmp_path / "settings").write_text(settings)
    (tmp_path / "config/git").mkdir(parents=True)
    (tmp_path / "config/git/config").write_text(settings)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))

    work(ours)

    assert not touched.exists()


def test_no_filter_submodule_or_lfs_of_the_repository_does_anything(ours, participant, touched):
    participant.write(".gitattributes", "* filter=lfs diff=evil merge=evil text eol=crlf ident\n")
    participant.write(".lfsconfig", f"[lfs]\n\turl = file://{touched}\n")
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12\n"
    participant.write("inbox/r-1.json", pointer)
    module = f'[submodule "x"]\n\tpath = inbox/x\n\turl = ext::sh -c "touch {touched}"\n'
    participant.write("inbox/module.txt", module)
    head = participant.git("rev-parse", "HEAD").strip()
    participant.git("add", "-A")
    participant.git("update-index", "--add", "--cacheinfo", f"160000,{head},inbox/x")
    participant.git("commit", "-q", "-m", "Clever")
    participant.git("push", "-q", "origin", "HEAD:main")

    newest = work(ours)

    entries = {entry.name: entry for entry in ours.folder(newest, "inbox")}
    assert ours.read(entries["r-1.json"]).decode() == pointer
    assert (entries["x"].mode, entries["x"].size, entries["x"].is_plain_file) == (
        "160000",
        None,
        False,
    )
    assert not touched.exists()


# --- trees and objects ----------------------------------------------------------------------------


def write_tree(upstream: Path, listed: bytes) -> str:
    return plain(upstream, "mktree", "-z", "--missing", given=listed)


def plain(folder: Path, *arguments: str, given: bytes = b"") -> str:
    command = ["git", "-c", "user.name=M", "-c", "user.email=m@example", *arguments]
    run = subprocess.run(command, cwd=folder, input=given, check=True, capture_output=True)
    return run.stdout.decode().strip()


def publish(upstream: Path, root: str) -> str:
    """Make the tree that of a new commit of the branch."""
    commit = plain(upstream, "commit-tree", root, "-p", "main", "-m", "Hostile")
    plain(upstream, "update-ref", "refs/heads/main", commit)
    return commit


def with_inbox(upstream: Path, inbox: str) -> str:
    """The newest root with another inbox."""
    lines = plain(upstream, "ls-tree", "main").split("\n")
    kept = [line for line in lines if not line.endswith("\tinbox")]
    listed = "\0".join([*kept, f"040000 tree {inbox}\tinbox"]) + "\0"
    return write_tree(upstream, listed.encode())


def blob(upstream: Path, content: bytes) -> str:
    return plain(upstream, "hash-object", "-w", "--stdin", given=content)


def test_links_and_programs_are_no_plain_files(ours, upstream):
    target = blob(upstream, b"/etc/passwd")
    listed = f"120000 blob {target}\tlink.json\x00100755 blob {target}\trun.json\x00"
    publish(upstream, with_inbox(upstream, write_tree(upstream, listed.encode())))

    entries = ours.folder(ours.fetch(), "inbox")

    assert [(entry.name, entry.is_plain_file) for entry in entries] == [
        ("link.json", False),
        ("run.json", False),
    ]
    assert ours.read(entries[0]) == b"/etc/passwd"  # what the link says, not where it leads


def test_strange_names_are_listed_and_harm_nothing(ours, upstream):
    content = blob(upstream, b"{}")
    names = [b"a\nb.json", b"\x1b[31m.json", b"\xff\xfe.json", b"-x.json", b"x" * 3000, b'"q".json']
    listed = b"".join(b"100644 blob %s\t%s\0" % (content.encode(), name) for name in names)
    publish(upstream, with_inbox(upstream, write_tree(upstream, listed)))

    entries = ours.folder(ours.fetch(), "inbox")

    assert len(entries) == len(names)
    assert {entry.size for entry in entries} == {2}
    assert {"a\nb.json", "\ufffd\ufffd.json"} <= {entry.name for entry in entries}


@pytest.mark.parametrize("name", [b"..", b".git", b".GIT", b"a/b", b"git~1"])
def test_names_that_leave_the_folder_are_refused_on_arrival(ours, upstream, name):
    before = ours.fetch()
    raw = b"100644 %s\0" % name + bytes.fromhex(blob(upstream, b"{}"))
    tree = plain(upstream, "hash-object", "-t", "tree", "-w", "--literally", "--stdin", given=raw)
    publish(upstream, with_inbox(upstream, tree))

    with pytest.raises(GitFailed, match=r"fsck|has"):
        ours.fetch()

    assert [entry.name for entry in ours.folder(before, "inbox")] == [".gitkeep"]


def test_an_object_that_is_not_what_its_id_says_is_as_if_it_was_left_out(ours, upstream):
    ours.fetch()
    content = blob(upstream, b"harmless")
    listed = f"100644 blob {content}\tr-1.json\0".encode()
    publish(upstream, with_inbox(upstream, write_tree(upstream, listed)))
    other = blob(upstream, b"harmful!")
    stored = upstream / "objects"
    (stored / content[:2] / content[2:]).chmod(0o644)
    shutil.copy(stored / other[:2] / other[2:], stored / content[:2] / content[2:])

    (entry,) = ours.entries(ours.fetch(), ["inbox/r-1.json"]).values()

    assert (entry.object_id, entry.size) == (content, LEFT_OUT)
    with pytest.raises(GitFailed):
        ours.read(replace(entry, size=100))


@pytest.mark.slow
def test_a_folder_with_too_many_names_is_an_error_that_says_so(ours, upstream):
    content = blob(upstream, b"{}")
    few = "".join(f"100644 blob {content}\t{number:07}.json\0" for number in range(99_999))
    publish(upstream, with_inbox(upstream, write_tree(upstream, few.encode())))
    assert len(ours.folder(ours.fetch(), "inbox")) == 99_999
    many = f"{few}100644 blob {content}\tx\x00100644 blob {content}\ty\0"
    publish(upstream, with_inbox(upstream, write_tree(upstream, many.encode())))

    with pytest.raises(GitFailed, match=r"inbox/ has more than 100,000 names"):
        ours.folder(ours.fetch(), "inbox")


# --- sizes ----------------------------------------------------------------------------------------


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


@pytest.mark.slow
def test_a_huge_file_is_left_out_where_the_server_can(ours, participant, upstream, tmp_path):
    plain(upstream, "config", "uploadpack.allowFilter", "true")
    (participant.folder / "inbox/huge.json").write_bytes(os.urandom(30 * 1024 * 1024))
    participant.submit("r-1", "consolidate", {})

    head = work(ours)

    huge, small = ours.entries(head, ["inbox/huge.json", "inbox/r-1.json"]).values()
    assert (huge.size, huge.is_plain_file) == (LEFT_OUT, True)
    assert small.size is not None
    assert ours.read(small).startswith(b"{")
    with pytest.raises(GitFailed, match="too large"):
        ours.read(huge)
    moved = Change("x", renamed={"inbox/huge.json": "archive/huge.json"})
    assert ours.push(ours.commit(head, moved, **WHO))
    for number in range(git.MOST_PACKS + 3):
        commit = ours.commit(ours.fetch(), Change("x", written={f"outbox/{number}": b""}), **WHO)
        assert ours.push(commit)
    ours.tidy()
    assert ours.entries(ours.fetch(), ["archive/huge.json"])["archive/huge.json"].size == LEFT_OUT
    assert size_of(tmp_path / "ours.git") < 1024 * 1024


@pytest.mark.slow
def test_a_huge_file_that_the_server_sends_is_not_read(participant, upstream, tmp_path):
    with (participant.folder / "inbox/huge.json").open("wb") as huge:
        huge.truncate(300 * 1024 * 1024)
    participant.submit("r-1", "consolidate", {})

    with over_http(upstream, tmp_path / "ours.git") as ours:
        head = work(ours)
        entry, small = ours.entries(head, ["inbox/huge.json", "inbox/r-1.json"]).values()

        assert entry.size == 300 * 1024 * 1024
        assert ours.read(small).startswith(b"{")


@pytest.mark.slow
def test_a_fetch_that_brings_too_much_is_ended_and_leaves_nothing(
    ours, participant, tmp_path, monkeypatch
):
    before = ours.fetch()
    monkeypatch.setattr(program, "LARGEST_FETCH", 1_000_000)
    monkeypatch.setattr(program, "TICK_S", 0.001)
    (participant.folder / "inbox/much.json").write_bytes(os.urandom(40 * 1024 * 1024))
    participant.git("config", "core.compression", "0")
    participant.push("Too much")

    with pytest.raises(GitFailed, match=r"received more than 1,000,000 bytes"):
        ours.fetch()

    assert not list((tmp_path / "ours.git/objects/pack").glob("tmp_*"))
    assert [entry.name for entry in ours.folder(before, "inbox")] == [".gitkeep"]


@pytest.mark.slow
def test_a_delta_that_grows_beyond_memory_is_refused(upstream, participant, tmp_path):
    for size in (200, 201):  # MiB; the second is stored as a small difference to the first
        with (participant.folder / "inbox/bomb").open("wb") as bomb:
            bomb.truncate(size * 1024 * 1024)
        participant.push("Bomb")
    settings = ("-c", "core.bigFileThreshold=1g", "-c", "pack.threads=1")
    plain(upstream, *settings, "repack", "-a", "-d", "-f", "-q")
    assert size_of(upstream) < 2 * 1024 * 1024

    with (
        over_http(upstream, tmp_path / "ours.git") as ours,
        pytest.raises(GitFailed, match=r"over limit"),
    ):
        ours.fetch()


# --- servers --------------------------------------------------------------------------------------


@contextmanager
def listening(serve: Callable[[socket.socket], None]) -> Iterator[str]:
    """The URL of a server; ``serve`` gets each of its connections in a thread."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                threading.Thread(target=serve, args=[connection], daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/bus.git"


def silent(connection: socket.socket) -> None:
    connection.recv(1)
    threading.Event().wait()


def slow(connection: socket.socket) -> None:
    connection.recv(4096)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
    threading.Event().wait()


def endless(connection: socket.socket) -> None:
    connection.recv(4096)
    kind = b"Content-Type: application/x-git-upload-pack-advertisement"
    connection.sendall(
        b"HTTP/1.1 200 OK\r\n" + kind + b"\r\n\r\n001e# service=git-upload-pack\n0000"
    )
    with connection:
        while True:
            try:
                connection.sendall((b"003d" + b"1" * 40 + b" refs/heads/a-long-x\n") * 1000)
            except OSError:
                return


def nonsense(connection: socket.socket) -> None:
    connection.recv(4096)
    connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n\x1b[31m" + os.urandom(500))
    connection.close()


@pytest.mark.parametrize("server", [silent, slow, endless, nonsense])
def test_a_hostile_server_costs_the_time_limit_at_most(server, tmp_path, monkeypatch):
    monkeypatch.setattr(git, "FETCH_TIMEOUT_S", 1.5)
    began = time.monotonic()
    with listening(server) as url:
        remote = Remote(url, "main", token=TOKEN, allow_local=True)
        with Repository(tmp_path / "ours.git", remote) as ours, pytest.raises(GitFailed) as failure:
            ours.fetch()

    assert time.monotonic() - began < 10
    assert str(failure.value).isprintable()
    assert TOKEN not in str(failure.value)


class GitServer(BaseHTTPRequestHandler):
    """git's own HTTP server program for one folder, for those who know the token."""

    folder: Path
    redirects_to = ""
    seen: list[str]

    def do_GET(self) -> None:
        self.seen.append(self.headers.get("Authorization", ""))
        if self.redirects_to:
            self._say(302, ("Location", self.redirects_to + self.path))
        elif self.headers.get("Authorization") != f"Basic {base64_of(f'git:{TOKEN}')}":
            self._say(401, ("WWW-Authenticate", 'Basic realm="bus"'))
        else:
            self._serve()

    do_POST = do_GET

    def _say(self, code: int, header: tuple[str, str]) -> None:
        self.send_response(code)
        self.send_header(*header)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _serve(self) -> None:
        path, _, query = self.path.partition("?")
        environment = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": str(self.folder),
            "GIT_HTTP_EXPORT_ALL": "1",
            "REMOTE_USER": "partner",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
        }
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        run = subprocess.run(
            ["git", "http-backend"], env=environment, input=body, capture_output=True, check=True
        )
        head, _, content = run.stdout.partition(b"\r\n\r\n")
        self.send_response(200)
        for line in head.decode().split("\r\n"):
            self.send_header(*line.split(": ", 1))
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


def base64_of(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@contextmanager
def git_server(folder: Path, redirects_to: str = "") -> Iterator[tuple[str, list[str]]]:
    """Its URL, and the credentials that it was given."""
    seen: list[str] = []
    members = {"folder": folder, "redirects_to": redirects_to, "seen": seen}
    with ThreadingHTTPServer(("127.0.0.1", 0), type("Server", (GitServer,), members)) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", seen
        server.shutdown()


@contextmanager
def over_http(upstream: Path, folder: Path) -> Iterator[Repository]:
    """The copy of a repository whose server is a process of its own."""
    plain(upstream, "config", "http.receivepack", "true")
    with git_server(upstream.parent) as (url, _):
        remote = Remote(f"{url}/upstream.git", "main", token=TOKEN, allow_local=True)
        with Repository(folder, remote) as ours:
            yield ours


def test_over_http_the_token_is_used(participant, upstream, tmp_path):
    with over_http(upstream, tmp_path / "ours.git") as ours:
        work(ours)

    assert len(participant.names("outbox")) == 1


def test_a_wrong_token_asks_nobody_and_is_not_shown(upstream, tmp_path):
    with git_server(upstream.parent) as (url, _):
        wrong = Remote(f"{url}/upstream.git", "main", token="another-token", allow_local=True)
        with Repository(tmp_path / "ours.git", wrong) as ours, pytest.raises(GitFailed) as failure:
            ours.fetch()

    assert "another-token" not in str(failure.value)


def test_redirects_are_not_followed_so_nobody_else_gets_the_token(participant, upstream, tmp_path):
    with git_server(upstream.parent) as (other, seen), git_server(upstream, other) as (url, _):
        remote = Remote(f"{url}/upstream.git", "main", token=TOKEN, allow_local=True)
        with Repository(tmp_path / "ours.git", remote) as ours, pytest.raises(GitFailed):
            ours.fetch()

    assert seen == []


# --- ssh ------------------------------------------------------------------------------------------

KEY = (
    "-----BEGIN OPENSSH PRIVATE KEY-----\nbm90LXJlYWxseS1hLWtleQ\n-----END OPENSSH PRIVATE KEY-----"
)


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Replaces the ssh program by a script."""

    def ssh(script: str) -> None:
        make_script(tmp_path / "bin/ssh", script)
        monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")

    return ssh


def over_ssh(upstream: Path, folder: Path) -> Repository:
    return Repository(folder, Remote(f"ssh://git@git.example{upstream}", "main", KEY, "known"))


def test_over_ssh_the_key_is_in_a_private_file_and_not_on_the_command_line(
    participant, upstream, tmp_path, ssh
):
    log = tmp_path / "log"
    ssh(
        f'for last; do :; done\nprintf "%s\\n" "$@" >> {log}\n'
        f'while [ "$1" != -i ]; do shift; done\nls -l "$2" >> {log}; cat "$2" >> {log}.key\n'
        'eval "exec $last"'
    )

    with over_ssh(upstream, tmp_path / "ours.git") as ours:
        work(ours)

    text = log.read_text()
    assert "StrictHostKeyChecking=yes" in text
    assert "BatchMode=yes" in text
    assert "-rw-------" in text
    assert "bm90LXJlYWxseS1hLWtleQ" not in text
    assert "bm90LXJlYWxseS1hLWtleQ" in (tmp_path / "log.key").read_text()
    assert not list(tmp_path.glob("ours.git.secrets-*"))


def test_an_ssh_that_hangs_is_ended_with_the_call(upstream, tmp_path, ssh, monkeypatch):
    ssh(f"echo $$ > {tmp_path / 'pid'}\ntrap '' TERM\nsleep 600 & wait; sleep 600")
    monkeypatch.setattr(git, "FETCH_TIMEOUT_S", 1.0)

    with (
        over_ssh(upstream, tmp_path / "ours.git") as ours,
        pytest.raises(GitFailed, match="more than 1 s"),
    ):
        ours.fetch()

    pid = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + 10
    while is_running(pid):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def is_running(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False


def test_what_ssh_says_is_shown_without_control_characters_or_the_key(upstream, tmp_path, ssh):
    ssh("printf '\\033[2Jgit.example says: bm90LXJlYWxseS1hLWtleQ \\007no\\n' >&2; exit 255")

    with over_ssh(upstream, tmp_path / "ours.git") as ours, pytest.raises(GitFailed) as failure:
        ours.fetch()

    assert "git.example says: •••• no" in str(failure.value)
    assert str(failure.value).isprintable()


# --- this machine ---------------------------------------------------------------------------------


def test_a_copy_is_usable_after_processes_were_killed(ours, upstream, participant, tmp_path):
    ours.fetch()
    folder = tmp_path / "ours.git"
    left = [folder / "shallow.lock", folder / "refs/bus/head.lock", folder / "config.lock"]
    left += [folder / "objects/pack/tmp_pack_x", tmp_path / "ours.git.secrets-x"]
    for path in left:
        path.write_text("")
        os.utime(path, (0, 0))
    participant.submit("r-1", "consolidate", {})

    with Repository(folder, Remote(str(upstream), "main", allow_local=True)) as again:
        work(again)

    assert [path for path in left if path.exists()] == []


def test_a_full_disk_is_an_error_and_the_copy_stays_usable(ours, participant):
    before = ours.fetch()
    (participant.folder / "inbox/r-1.json").write_bytes(os.urandom(1_000_000))
    participant.push("Larger than what is left")

    with smallest_disk(100_000), pytest.raises(GitFailed):
        ours.fetch()

    assert [entry.name for entry in ours.folder(before, "inbox")] == [".gitkeep"]
    assert ours.fetch() != before


@contextmanager
def smallest_disk(most: int) -> Iterator[None]:
    """Programs can write no larger files meanwhile."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
