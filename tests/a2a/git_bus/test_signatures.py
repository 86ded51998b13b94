"""Which signatures count, with keys that ssh-keygen has made, and which only seem to count."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import pytest

from a2a.doors.git_bus.repository import git
from a2a.doors.git_bus.repository.authors import valid_now
from a2a.doors.git_bus.repository.git import Author, GitFailed, Remote, Repository
from tests.a2a.git_bus.conftest import Participant

PATH = "inbox/r-1.json"
pytestmark = pytest.mark.skipif(
    shutil.which("ssh-keygen") is None and not os.environ.get("CI"), reason="needs ssh-keygen"
)


class Key:
    """A key of somebody, and the line that allows it to sign."""

    def __init__(self, folder: Path, who: str) -> None:
        self.path, self.who = folder / who, who
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", who, "-f", self.path]
        subprocess.run(command, check=True)
        self.public = " ".join(self.path.with_suffix(".pub").read_text().split()[:2])

    def line(self, options: str = "") -> str:
        return f"{self.who}@partner.example {options} {self.public}\n".replace("  ", " ")

    @property
    def fingerprint(self) -> str:
        command = ["ssh-keygen", "-lf", self.path.with_suffix(".pub")]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[1]


@pytest.fixture
def key(tmp_path: Path) -> Callable[[str], Key]:
    return cache(lambda who: Key(tmp_path, who))


@pytest.fixture
def repository(participant: Participant, tmp_path: Path) -> Iterator[Repository]:
    url = str(participant.folder.parent / "upstream.git")
    with Repository(tmp_path / "ours.git", Remote(url, "main", allow_local=True)) as repository:
        yield repository


def commit(participant: Participant, key: Key | None, message: str = "x", *options: str) -> str:
    """Commit all there is, signed with the key if there is one."""
    participant.git("add", "-A")
    participant.git(*signed_with(key), "commit", "-q", "-m", message, *options)
    return participant.git("rev-parse", "HEAD").strip()


def signed_with(key: Key | None) -> tuple[str, ...]:
    if key is None:
        return ("-c", "commit.gpgSign=false")
    settings = ("gpg.format=ssh", f"user.signingKey={key.path}", "commit.gpgSign=true")
    return tuple(word for setting in settings for word in ("-c", setting))


def author(repository: Repository, participant: Participant, signers: str) -> Author:
    participant.git("push", "-q", "--force", "origin", "HEAD:main")
    found = repository.author_of(repository.fetch(), PATH, signers)
    assert found is not None
    return found


def test_a_commit_of_an_allowed_signer_is_theirs(repository, participant, key):
    participant.write(PATH, "{}")
    submitted = commit(participant, key("ann"))

    found = author(repository, participant, key("bob").line() + key("ann").line())

    assert (found.commit, found.signer, found.problem) == (submitted, "ann@partner.example", "")
    assert found.key == key("ann").fingerprint
    assert found.is_signed


def test_later_commits_of_others_that_leave_the_file_alone_change_nothing(
    repository, participant, key
):
    participant.write(PATH, "{}")
    submitted = commit(participant, key("ann"))
    participant.write("inbox/other.json", "{}")
    commit(participant, None)

    found = author(repository, participant, key("ann").line())

    assert (found.commit, found.signer) == (submitted, "ann@partner.example")


def test_an_unsigned_commit_is_nobodys(repository, participant, key):
    participant.write(PATH, "{}")
    commit(participant, None)

    found = author(repository, participant, key("ann").line())

    assert (found.name, found.signer, found.is_signed) == ("Ann", "", False)
    assert "not signed" in found.problem


@pytest.mark.parametrize("signers", ["", "\n", "# nobody\n"])
def test_without_allowed_signers_nobody_has_signed(repository, participant, key, signers):
    participant.write(PATH, "{}")
    commit(participant, key("ann"))

    assert author(repository, participant, signers).signer == ""


def test_an_unknown_key_is_nobodys(repository, participant, key):
    participant.write(PATH, "{}")
    commit(participant, key("mallory"))

    found = author(repository, participant, key("ann").line())

    assert (found.signer, found.key) == ("", "")
    assert "None of the allowed signers" in found.problem


def test_the_signer_is_whose_key_it_is_not_whom_the_commit_names(repository, participant, key):
    participant.write(PATH, "{}")
    commit(participant, key("bob"))  # the commit names Ann as its author

    found = author(repository, participant, key("ann").line() + key("bob").line())

    assert (found.name, found.signer) == ("Ann", "bob@partner.example")


@pytest.mark.parametrize("dated", ["2026-11-20T00:00:00Z", "2019-06-01T00:00:00Z"])
def test_an_expired_key_signs_nothing_even_in_commits_that_name_an_earlier_time(
    repository, participant, key, monkeypatch, dated
):
    monkeypatch.setenv("GIT_COMMITTER_DATE", dated)
    participant.write(PATH, "{}")
    commit(participant, key("ann"))

    expired = key("ann").line('valid-before="20200101"')

    assert author(repository, participant, expired).signer == ""
    assert author(repository, participant, key("ann").line()).signer == "ann@partner.example"


def test_a_key_for_something_else_than_git_signs_nothing(repository, participant, key):
    participant.write(PATH, "{}")
    commit(participant, key("ann"))

    assert author(repository, participant, key("ann").line('namespaces="file"')).signer == ""
    assert author(repository, participant, key("ann").line('namespaces="git"')).signer


def test_a_signature_that_was_made_for_something_else_does_not_count(
    repository, participant, key, tmp_path
):
    participant.write(PATH, "{}")
    plain = raw(participant, commit(participant, None))
    for namespace in ("file", "git"):
        signature = sign(plain, key("ann"), namespace, tmp_path)
        reset_to(participant, with_signature(plain, signature))

        found = author(repository, participant, key("ann").line())

        assert bool(found.signer) == (namespace == "git")


def test_a_commit_that_was_changed_after_it_was_signed_is_nobodys(repository, participant, key):
    participant.write(PATH, "{}")
    signed = raw(participant, commit(participant, key("ann"), "pay 10"))
    reset_to(participant, signed.replace(b"pay 10", b"pay 99"))

    found = author(repository, participant, key("ann").line())

    assert (found.signer, found.signature) == ("", "B")
    assert "not that of the commit" in found.problem


def test_a_signed_request_that_somebody_changes_is_nobodys(repository, participant, key):
    participant.write(PATH, '{"pay": 10}')
    commit(participant, key("ann"))
    participant.write(PATH, '{"pay": 99}')
    commit(participant, None)

    assert author(repository, participant, key("ann").line()).signer == ""


def test_a_signed_file_that_somebody_renames_is_nobodys(repository, participant, key):
    participant.write("drafts/r-1.json", "{}")
    commit(participant, key("ann"))
    participant.git("mv", "drafts/r-1.json", PATH)
    commit(participant, None)

    assert author(repository, participant, key("ann").line()).signer == ""


def test_a_signed_request_that_is_copied_under_another_id_is_nobodys(repository, participant, key):
    participant.write("inbox/r-0.json", "{}")
    commit(participant, key("ann"))
    shutil.copy(participant.folder / "inbox/r-0.json", participant.folder / PATH)
    commit(participant, None)

    assert author(repository, participant, key("ann").line()).signer == ""


# --- merges ---------------------------------------------------------------------------------------


def test_an_unsigned_merge_of_concurrent_work_leaves_the_request_its_signers(
    repository, participant, key
):
    base = participant.git("rev-parse", "HEAD").strip()
    participant.write(PATH, "{}")
    submitted = commit(participant, key("ann"))
    participant.git("checkout", "-q", "-B", "bobs", base)
    participant.write("inbox/r-2.json", "{}")
    commit(participant, None)
    participant.git("merge", "-q", "--no-edit", submitted)

    found = author(repository, participant, key("ann").line())

    assert (found.commit, found.signer) == (submitted, "ann@partner.example")


def test_a_merge_that_changes_the_file_is_its_author(repository, participant, key):
    base = participant.git("rev-parse", "HEAD").strip()
    participant.write(PATH, '{"pay": 10}')
    submitted = commit(participant, key("ann"))
    participant.git("checkout", "-q", "-B", "bobs", base)
    participant.write("inbox/r-2.json", "{}")
    commit(participant, None)
    participant.git("merge", "-q", "--no-commit", submitted)
    participant.write(PATH, '{"pay": 99}')
    merged = commit(participant, None)

    found = author(repository, participant, key("ann").line())

    assert (found.commit, found.signer) == (merged, "")


@pytest.mark.parametrize("first", ["the newest", "the old one"])
def test_no_merge_brings_back_what_the_signer_has_replaced(repository, participant, key, first):
    participant.write(PATH, '{"pay": 99}')
    old = commit(participant, key("ann"))
    participant.write(PATH, '{"pay": 10}')
    newest = commit(participant, key("ann"))
    parents = (newest, old) if first == "the newest" else (old, newest)
    merge(participant, parents, tree=f"{old}^{{tree}}")
    assert "99" in participant.git("show", f"HEAD:{PATH}")

    found = author(repository, participant, key("ann").line())

    assert found.signer == ""
    assert "changed in between" in found.problem


def test_no_merges_of_merges_bring_back_what_was_taken_away(repository, participant, key):
    base = participant.git("rev-parse", "HEAD").strip()
    participant.write(PATH, "{}")
    old = commit(participant, key("ann"))
    # Both merges have the file as one of their parents has it: git log shows neither.
    without = merge(participant, (old, base), tree=f"{base}^{{tree}}")
    merge(participant, (without, old), tree=f"{old}^{{tree}}")

    assert author(repository, participant, key("ann").line()).signer == ""


def test_no_merge_brings_a_commit_that_was_signed_for_another_repository(
    repository, participant, key
):
    here = participant.git("rev-parse", "HEAD").strip()
    participant.git("checkout", "-q", "--orphan", "elsewhere")
    participant.write(PATH, "{}")
    foreign = commit(participant, key("ann"))
    merge(participant, (here, foreign), tree=f"{foreign}^{{tree}}")

    found = author(repository, participant, key("ann").line())

    assert found.signer == ""
    assert "another history" in found.problem


@pytest.mark.parametrize("deeper", [0, git.DEEPER])
def test_what_happened_before_the_fetched_history_cannot_be_brought_back_by_a_merge(
    repository, participant, key, monkeypatch, deeper
):
    monkeypatch.setattr(git, "DEEPER", deeper)
    participant.write(PATH, "{}")
    old = commit(participant, key("ann"))
    participant.git("rm", "-q", PATH)
    commit(participant, None)
    for number in range(60):  # more than are fetched at first
        participant.git("commit", "-q", "--allow-empty", "-m", str(number))
    newest = participant.git("rev-parse", "HEAD").strip()
    merge(participant, (newest, old), tree=f"{old}^{{tree}}")

    assert author(repository, participant, key("ann").line()).signer == ""


# --- what is missing ------------------------------------------------------------------------------


def test_without_ssh_keygen_the_error_says_so(repository, participant, key, monkeypatch, tmp_path):
    participant.write(PATH, "{}")
    commit(participant, key("ann"))
    participant.git("push", "-q", "origin", "HEAD:main")
    head, signers = repository.fetch(), key("ann").line()
    only_git = tmp_path / "bin"
    only_git.mkdir()
    (only_git / "git").symlink_to(shutil.which("git") or "")
    monkeypatch.setenv("PATH", str(only_git))

    with pytest.raises(GitFailed, match="ssh-keygen is not installed"):
        repository.author_of(head, PATH, signers)


def test_a_file_that_is_not_there_has_no_author(repository, participant):
    assert repository.author_of(repository.fetch(), "inbox/none.json") is None


@pytest.mark.parametrize(
    ("options", "is_kept"),
    [
        ("", True),
        ('valid-before="20261122"', False),
        ('valid-before="20261123Z"', True),
        ("valid-before=20261122120000", False),
        ('VALID-BEFORE="202611221201"', True),
        ('valid-after="20261123"', False),
        ('namespaces="git",valid-after="20261121",valid-before="20261122"', False),
        ('valid-before="99999999"', False),
    ],
)
def test_lines_of_signers_count_within_their_times(options, is_kept):
    line = f"ann@partner.example {options} ssh-ed25519 AAAA"

    assert valid_now(line, datetime(2026, 11, 22, 12, tzinfo=UTC)) == (line if is_kept else "")


# --- git's own objects ----------------------------------------------------------------------------


def raw(participant: Participant, commit_id: str) -> bytes:
    return participant.git("cat-file", "commit", commit_id).encode()


def reset_to(participant: Participant, content: bytes) -> None:
    """Make a commit with exactly this content the newest."""
    command = ["git", "hash-object", "-t", "commit", "-w", "--stdin"]
    made = subprocess.run(
        command, cwd=participant.folder, input=content, check=True, capture_output=True
    )
    participant.git("reset", "-q", "--hard", made.stdout.decode().strip())


def merge(participant: Participant, parents: tuple[str, str], *, tree: str) -> str:
    """Make an unsigned merge with that tree the newest."""
    lines = [word for parent in parents for word in ("-p", parent)]
    made = participant.git("commit-tree", *lines, "-m", "Merge", tree).strip()
    participant.git("reset", "-q", "--hard", made)
    return made


def sign(content: bytes, key: Key, namespace: str, folder: Path) -> str:
    file = folder / f"signed-for-{namespace}"
    file.write_bytes(content)
    command = ["ssh-keygen", "-q", "-Y", "sign", "-f", key.path, "-n", namespace, file]
    subprocess.run(command, check=True, capture_output=True)
    return file.with_name(f"{file.name}.sig").read_text()


def with_signature(content: bytes, signature: str) -> bytes:
    head, _, message = content.partition(b"\n\n")
    lines = signature.strip().replace("\n", "\n ")
    return head + b"\ngpgsig " + lines.encode() + b"\n\n" + message
