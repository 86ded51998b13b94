"""A bare copy of a repository: what is fetched, read, committed and pushed, within limits."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from a2a.doors.git_bus.repository import git
from a2a.doors.git_bus.repository.git import (
    Change,
    GitFailed,
    NotThere,
    Remote,
    Repository,
    is_usable,
)
from tests.a2a.git_bus.conftest import Participant

WHO = {"name": "Assent", "email": "assent@assent.invalid"}


@pytest.fixture
def remote(participant: Participant) -> Remote:
    return Remote(str(participant.folder.parent / "upstream.git"), "main", allow_local=True)


@pytest.fixture
def repository(remote: Remote, tmp_path: Path) -> Iterator[Repository]:
    with Repository(tmp_path / "ours.git", remote) as repository:
        yield repository


def plain(folder: Path | str, *arguments: str) -> str:
    run = subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True)
    return run.stdout.decode()


# --- reading and writing --------------------------------------------------------------------------


def test_a_commit_moves_and_writes_files_and_is_pushed(repository, participant):
    participant.submit("r-1", "consolidate", {})
    head = repository.fetch()
    change = Change(
        "Processed r-1",
        renamed={"inbox/r-1.json": "archive/r-1.json"},
        written={"outbox/res_r-1.json": b"{}", "outbox/r-1/a.bin": b"\r\n\0\xff"},
    )

    commit = repository.commit(head, change, **WHO)

    assert repository.push(commit)
    assert repository.fetch() == commit
    assert participant.names("archive") == ["r-1.json"]
    assert participant.names("inbox") == []
    assert (participant.folder / "outbox/r-1/a.bin").read_bytes() == b"\r\n\0\xff"
    (answer,) = repository.entries(commit, ["outbox/r-1/a.bin", "outbox/none"]).values()
    assert (answer.size, answer.is_plain_file, repository.read(answer)) == (4, True, b"\r\n\0\xff")


def test_many_commits_are_made_and_pushed_at_once(repository, participant):
    participant.submit("r-1", "consolidate", {})
    changes = [
        Change("Claimed r-1", renamed={"inbox/r-1.json": "processing/r-1.json"}),
        Change("Processed r-1", renamed={"processing/r-1.json": "archive/r-1.json"}),
        Change("More", written={"outbox/res_r-1.json": b"{}"}),
    ]

    commits = repository.commits(repository.fetch(), changes, **WHO)

    assert repository.push(commits[-1])
    participant.pull()
    assert participant.log()[:4] == ["More", "Processed r-1", "Claimed r-1", "Submitted r-1"]
    assert participant.git("rev-list", "-3", "--reverse", "HEAD").split() == commits


def test_a_push_after_another_is_refused_and_changes_nothing(repository, participant):
    head = repository.fetch()
    participant.submit("r-1", "consolidate", {})

    assert not repository.push(repository.commit(head, Change("Late", written={"a": b""}), **WHO))

    assert participant.log()[0] == "Submitted r-1"


def test_a_branch_that_is_not_there_is_said(remote, tmp_path):
    missing = Remote(remote.url, "other", allow_local=True)
    with Repository(tmp_path / "other.git", missing) as repository, pytest.raises(NotThere):
        repository.fetch()


@pytest.mark.parametrize(
    "path", ["../x", "a\nM 100644 inline b", '"a"', "a b", "/etc/passwd", "", "x/.git/y"]
)
def test_no_other_path_than_that_of_a_bus_is_written(repository, path):
    head = repository.fetch()

    with pytest.raises((ValueError, GitFailed)):
        repository.commit(head, Change("x", written={path: b""}), **WHO)


def test_no_report_of_a_failed_commit_is_left_for_ever(repository, remote, tmp_path):
    head = repository.fetch()
    with pytest.raises(GitFailed):
        repository.commit(head, Change("x", renamed={"inbox/none": "archive/none"}), **WHO)
    reports = list((tmp_path / "ours.git").glob("fast_import_crash_*"))
    for report in reports:
        os.utime(report, (0, 0))

    with Repository(tmp_path / "ours.git", remote):
        assert reports
        assert not any(report.exists() for report in reports)


# --- the copy -------------------------------------------------------------------------------------


def long_history(participant: Participant, commits: int) -> None:
    """Commits that change nothing but one file, on top of what is there."""
    parent = participant.git("rev-parse", "HEAD").strip()
    stream = [f"reset refs/heads/main\nfrom {parent}\n"]
    for number in range(commits):
        text = f"{number}\n"
        stream.append(
            f"commit refs/heads/main\ncommitter A <a@b> {1_700_000_000 + number} +0000\n"
            f"data 1\nx\nM 100644 inline counter\ndata {len(text)}\n{text}\n"
        )
    upstream = participant.folder.parent / "upstream.git"
    given = "".join(stream).encode()
    subprocess.run(["git", "fast-import", "--quiet"], cwd=upstream, input=given, check=True)


def commits_in(folder: Path) -> int:
    return int(plain(folder, "rev-list", "--count", git.HEAD))


def test_only_the_newest_history_is_fetched_and_all_that_is_pushed_later(
    repository, participant, tmp_path
):
    long_history(participant, 200)
    repository.fetch()
    assert commits_in(tmp_path / "ours.git") == git.FIRST_DEPTH
    participant.pull()
    participant.submit("r-1", "consolidate", {})

    repository.fetch()

    assert commits_in(tmp_path / "ours.git") == git.FIRST_DEPTH + 1


def test_an_author_from_before_the_fetched_history_is_found(repository, participant):
    participant.submit("r-1", "consolidate", {})
    submitted = participant.git("rev-parse", "HEAD").strip()
    long_history(participant, 200)
    head = repository.fetch()

    author = repository.author_of(head, "inbox/r-1.json")

    assert (author.commit, author.name, author.email) == (submitted, "Ann", "ann@partner.example")


def test_who_is_older_than_all_known_history_is_not_named_wrongly(
    repository, participant, monkeypatch
):
    monkeypatch.setattr(git, "DEEPER", 100)
    participant.submit("r-1", "consolidate", {})
    long_history(participant, 300)
    head = repository.fetch()

    author = repository.author_of(head, "inbox/r-1.json")

    assert (author.name, author.signer) == ("unknown", "")
    assert "older" in author.problem


def test_ancestors_from_before_the_fetched_history_are_found(repository, participant):
    earlier = participant.git("rev-parse", "HEAD").strip()
    long_history(participant, 200)
    head = repository.fetch()

    assert repository.is_ancestor(earlier, head)
    assert not repository.is_ancestor(head, earlier)
    assert not repository.is_ancestor("1" * 40, head)


def test_a_rewritten_history_is_fetched_and_known_as_such(repository, participant):
    participant.submit("r-1", "consolidate", {})
    before = repository.fetch()
    participant.git("reset", "-q", "--hard", "HEAD~1")
    participant.write("inbox/other.json", "{}")
    participant.git("add", "-A")
    participant.git("commit", "-q", "-m", "Another past")
    participant.git("push", "-q", "--force", "origin", "HEAD:main")

    head = repository.fetch()

    assert not repository.is_ancestor(before, head)
    assert [entry.name for entry in repository.folder(head, "inbox")] == [".gitkeep", "other.json"]


def test_tidying_joins_the_packs_of_our_commits(repository, participant, tmp_path):
    head = repository.fetch()
    for number in range(git.MOST_PACKS + 5):
        head = repository.commit(head, Change("x", written={f"inbox/{number}": b"{}"}), **WHO)
    assert repository.push(head)
    packs = tmp_path / "ours.git" / "objects" / "pack"
    before = len(list(packs.glob("*.pack")))

    repository.tidy()

    assert len(list(packs.glob("*.pack"))) < before / 4
    assert len(repository.folder(head, "inbox")) == git.MOST_PACKS + 6
    assert repository.fetch() == head


def test_tidying_makes_a_copy_with_a_long_history_again(
    repository, participant, tmp_path, monkeypatch
):
    monkeypatch.setattr(git, "MOST_COMMITS", 100)
    known = repository.fetch()
    long_history(participant, 200)
    head = repository.fetch()
    assert commits_in(tmp_path / "ours.git") > 100

    repository.tidy()

    assert commits_in(tmp_path / "ours.git") == git.FIRST_DEPTH
    assert repository.fetch() == head
    assert repository.is_ancestor(known, head)
    commit = repository.commit(head, Change("x", written={"inbox/a": b"{}"}), **WHO)
    assert repository.push(commit)
    assert [path.name for path in tmp_path.glob("ours.git.*") if "secrets" not in path.name] == []


# --- limits of one call ---------------------------------------------------------------------------


def test_a_file_that_is_larger_than_its_size_is_not_read_to_the_end(repository, participant):
    participant.write("inbox/big.json", "x" * 1_000_000)
    participant.push("Big")
    (entry,) = repository.entries(repository.fetch(), ["inbox/big.json"]).values()

    with pytest.raises(GitFailed, match="wrote more than 1,000 bytes"):
        repository.read(replace(entry, size=1000))


def test_a_call_that_takes_too_long_is_ended_with_its_helpers(repository):
    began = time.monotonic()

    with pytest.raises(GitFailed, match=r"took more than 0\.5 s"):
        repository._run(
            "cat-file", "--batch-check", "--follow-symlinks", given=GIVEN, timeout_s=0.5
        )

    assert time.monotonic() - began < 10


GIVEN = b"HEAD\n" * 20_000_000


def test_errors_are_one_line_without_control_characters_and_secrets(tmp_path, participant):
    remote = Remote("/nowhere", "main", token="top-secret", allow_local=True)
    with Repository(tmp_path / "ours.git", remote) as repository:
        shown = repository._program._shown(b"\x1b[31mred\x1b[0m\nfatal: top-secret\x07\r", b"")

    assert shown == "[31mred [0m fatal: ••••"


def test_without_git_the_error_says_so(remote, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(GitFailed, match="git cannot be run"):
        Repository(tmp_path / "ours.git", remote).__enter__()
    assert not list(tmp_path.glob("ours.git.secrets-*"))


# --- URLs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "https://git.example/acme/bus.git",
        "https://me@git.example/acme/bus.git",
        "ssh://git@git.example:22/acme/bus.git",
        "git@git.example:acme/bus.git",
    ],
)
def test_https_and_ssh_are_usable(url):
    assert is_usable(url, allow_local=False)


@pytest.mark.parametrize(
    "url",
    [
        "ext::sh -c touch% /tmp/x",
        "--upload-pack=touch /tmp/x",
        "ssh://-oProxyCommand=touch/x",
        "git@-oProxyCommand=touch:x",
        "-x@git.example:acme",
        "git@git.example:-x",
        "git@git.example:--upload-pack=x",
        "https://me:secret@git.example/bus.git",
        "ssh://me:secret@git.example/bus.git",
        "https://git.example/\n[remote]",
        "https://git.example/\x1b[31m",
        "https://",
        "http://git.example/bus.git",
        "git://git.example/bus.git",
        "file:///etc",
        "/etc",
        "../bus",
        "bus.bundle",
        "",
    ],
)
def test_everything_else_is_refused_before_git_sees_it(url, tmp_path):
    assert not is_usable(url, allow_local=False)
    with pytest.raises(GitFailed, match="URL"):
        Repository(tmp_path / "ours.git", Remote(url, "main")).__enter__()
