"""Authors of the files in a repository: named by a commit, and proven by its signature.

A signature of git covers a whole commit, but neither a branch nor a repository. So a good one is
not enough: the content must be that of the signed commit, and unchanged ever since.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime

from a2a.doors.git_bus.repository.program import GitFailed, Program

COMMIT_ID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
FORM = "--format=%H%x00%an%x00%ae%x00%ct%x00%G?%x00%GS%x00%GF"
LONGEST = 200  # characters of a name
MOST_SINCE = 20_000  # commits since a signed one
VALID = re.compile(r'(valid-after|valid-before)="?(\d{8,14})Z?"?', re.IGNORECASE)
PROBLEMS = {
    "N": "The commit is not signed.",
    "B": "The signature is not that of the commit.",
    "U": "None of the allowed signers has signed it.",
    "E": "The signature could not be checked.",
    "X": "The signature has expired.",
    "Y": "The key has expired.",
    "R": "The key was revoked.",
}
NO_KEYGEN = "ssh-keygen is not installed: signatures cannot be checked."
CHANGED = "The file is not as it was signed, or was changed in between."
JOINED = "A merge has brought it from another history."
TOO_OLD = "It is older than the history that is known."


@dataclass(frozen=True, slots=True)
class Author:
    """The author of a commit: named by the commit, and by its signature if that counts."""

    commit: str
    name: str
    email: str
    signature: str  # git's %G?: G good, N none, and others
    signer: str  # the principal of the allowed signer; only of a signature that counts
    key: str  # its fingerprint
    at: datetime  # by the committer's clock, which nothing proves
    problem: str = ""  # why no signature counts, in a sentence

    @property
    def is_signed(self) -> bool:
        return bool(self.signer)


class Histories:
    """Questions about the commits that a repository has."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._run = program.run

    def cut_off(self) -> set[str]:
        """The commits whose parents exist and are not here."""
        path = self._program.folder / "shallow"
        return set(path.read_text().split()) if path.exists() else set()

    def length(self, commit: str) -> int:
        """The number of commits up to this one."""
        return int(self._run("rev-list", "--count", commit))

    def is_ancestor(self, earlier: str, later: str) -> bool:
        try:
            self._run("merge-base", "--is-ancestor", earlier, later)
        except GitFailed:
            return False
        return True

    def introduction(self, commit: str, path: str) -> str | None:
        """The commit that put the file there as it is; ``None`` if there is no such file."""
        if self._blobs([commit], path) == {None}:
            return None
        return self._run("log", "-1", "--format=%H", commit, "--", path).decode().strip() or None

    def author(self, introduced: str, commit: str, path: str, signers: str) -> Author:
        """The author of the file that ``introduced`` put there, as it is in ``commit``."""
        named = self._author(introduced, signers)
        if introduced in self.cut_off():  # it only looks as if this one had put it there
            return Author(named.commit, "unknown", "", "N", "", "", named.at, TOO_OLD)
        if not named.signer:
            return named
        problem = self._problem(introduced, commit, path)
        return _unproven(named, problem) if problem else named

    def _author(self, commit: str, signers: str) -> Author:
        if signers.strip() and shutil.which("ssh-keygen") is None:
            raise GitFailed(NO_KEYGEN)
        allowed = self._program.keep_secret("allowed_signers", valid_now(signers))
        text = self._run(
            "log", "-1", FORM, commit, settings={"gpg.ssh.allowedSignersFile": str(allowed)}
        )
        fields = text.decode(errors="replace").strip("\n").split("\0")
        if len(fields) != 7:
            raise GitFailed(f"Commit {commit[:12]} has an author that cannot be read.")
        commit_id, name, email, at, signature, signer, key = (each[:LONGEST] for each in fields)
        author = Author(commit_id, name, email, signature, signer, key, _time(at))
        if signature == "G" and signer and signers.strip():
            return author
        return _unproven(author, PROBLEMS.get(signature, PROBLEMS["U"]))

    def _problem(self, signed: str, commit: str, path: str) -> str:
        """Why a good signature does not count for the file; empty if it does."""
        # In all commits that were built on the signed one the file must be the same: else somebody
        # has brought back what its sender had replaced or taken away.
        span = f"{signed}..{commit}"
        since = self._run("rev-list", "--ancestry-path", span).decode().split()
        if len(since) > MOST_SINCE or len(self._blobs([signed, commit, *since], path)) != 1:
            return CHANGED
        # A merge may bring a commit that was signed for another repository, or long ago.
        merged = self._run("rev-list", span).decode().split()
        if len(merged) > len(since) and not self._is_whole(commit, merged):
            return JOINED
        return ""

    def _is_whole(self, commit: str, merged: list[str]) -> bool:
        """True if the merged commits and the file's have the same first commit, as far as known."""
        if self.cut_off() & set(merged):
            return False
        roots = self._run("rev-list", "--max-parents=0", commit).decode().split()
        return len(roots) <= max(1, len(self.cut_off()))

    def _blobs(self, commits: list[str], path: str) -> set[str | None]:
        """The ids of the file in the commits; ``None`` for those without it."""
        names = "".join(f"{commit}:{path}\n" for commit in commits).encode()
        answer = self._run("cat-file", "--batch-check=%(objectname)", given=names)
        return {
            line if COMMIT_ID.fullmatch(line) else None
            for line in answer.decode(errors="replace").splitlines()
        }


def valid_now(signers: str, now: datetime | None = None) -> str:
    """The lines of signers without those that are not valid yet, or not any more.

    git compares with the time that the commit names, which whoever has an expired key can choose.
    """
    at = now or datetime.now(UTC)
    return "\n".join(line for line in signers.splitlines() if _is_valid(line, at))


def _is_valid(line: str, at: datetime) -> bool:
    for name, digits in VALID.findall(line):
        moment = _moment(digits)
        if moment is None or (at < moment if name.lower() == "valid-after" else at >= moment):
            return False
    return True


def _moment(digits: str) -> datetime | None:
    """The UTC time in ssh-keygen's format, from eight (a day) to fourteen digits."""
    for form in ("%Y%m%d", "%Y%m%d%H%M", "%Y%m%d%H%M%S"):
        if len(digits) == len(datetime.now(UTC).strftime(form)):
            try:
                return datetime.strptime(digits, form).replace(tzinfo=UTC)
            except ValueError:
                return None
    return None


def _unproven(author: Author, problem: str) -> Author:
    return Author(
        author.commit, author.name, author.email, author.signature, "", "", author.at, problem
    )


def _time(seconds: str) -> datetime:
    """A time that a stranger has written; now, if it is none or is to come."""
    try:
        return min(datetime.fromtimestamp(int(seconds), UTC), datetime.now(UTC))
    except (ValueError, OverflowError, OSError):
        return datetime.now(UTC)
