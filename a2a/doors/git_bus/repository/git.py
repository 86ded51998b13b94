"""A bare git repository as a bus: fetched, read, committed to and pushed.

The repository belongs to strangers. Nothing of it is ever checked out, so there is nothing that
hooks, filters, symbolic links, submodules or odd paths could do; objects are verified when they
arrive. The copy has only the newest history and, where the server can leave them out, no files
that are too large to be used: it can be made again at any time.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from a2a.doors.git_bus.repository.authors import Author, Histories
from a2a.doors.git_bus.repository.program import (
    GitFailed,
    Program,
    Remote,
    TooManyNames,
    end_calls,
    is_usable,
)

__all__ = (
    "HEAD",
    "LEFT_OUT",
    "Author",
    "Change",
    "Entry",
    "GitFailed",
    "NotThere",
    "Remote",
    "Repository",
    "TooManyNames",
    "end_calls",
    "is_usable",
)

REGULAR_FILE = "100644"
HEAD = "refs/bus/head"  # the branch of the bus, as last fetched
WORK = "refs/bus/work"  # a commit of ours that may not be pushed yet
FETCH_TIMEOUT_S = 120.0
MOST_ENTRIES = 100_000  # names in a folder
LARGEST_BLOB = 10 * 1024 * 1024 + 1  # bytes; of larger ones the server is asked to leave them out
LEFT_OUT = 2**63 - 1  # the size of a file that the server has left out
FIRST_DEPTH = 50  # commits
DEEPER = 1_000  # more commits, for questions about older history
# When the copy is tidied.
MOST_COMMITS, MOST_FETCHED_PACKS, MOST_PACKS = 5_000, 150, 30
FETCH_OPTIONS = ("--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules")
PLAIN_NAME = re.compile(r"(?!\.+$|\.git$)[A-Za-z0-9._-]+")


class PushDeclined(GitFailed):
    """The server takes pushes, but not this one: a rule or a hook of the git host."""


class NotThere(GitFailed):
    """The repository has no such branch."""


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


@dataclass(slots=True)
class Change:
    """The files of one commit of ours. ``renamed`` and ``written`` by path; all of them regular.

    Not ``is_signed`` where a file of others goes where it counts as newly sent: our signature
    would pass for its sender's.
    """

    message: str
    renamed: dict[str, str] = field(default_factory=dict)
    written: dict[str, bytes] = field(default_factory=dict)
    removed: list[str] = field(default_factory=list)
    is_signed: bool = True


class Repository:
    """A bus's repository: ``folder`` has its objects, a copy that can be made again."""

    def __init__(self, folder: Path, remote: Remote) -> None:
        self._folder, self._remote = folder, remote
        self._program = Program(folder, remote)
        self._run = self._program.run

    def __enter__(self) -> Repository:
        with ExitStack() as failed:
            failed.enter_context(self._program)
            if not (self._folder / "HEAD").exists():
                self._run("init", "--quiet", "--bare", "--template=", str(self._folder))
            self._program.remove_leftovers()
            failed.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._program.__exit__()

    # --- to and from the server -------------------------------------------------------------------

    def fetch(self) -> str:
        """The newest commit of the branch. Raises ``GitFailed``; ``NotThere`` without a branch."""
        is_first = not (self._folder / HEAD).exists()
        try:
            self._fetch(*((f"--depth={FIRST_DEPTH}",) if is_first else ()))
        except GitFailed as failure:
            if "couldn't find remote ref" in str(failure):
                raise NotThere(f"There is no branch {self._remote.branch!r}.") from None
            raise
        return self._run("rev-parse", HEAD).decode().strip()

    def _fetch(self, *options: str) -> None:
        branch = f"+refs/heads/{self._remote.branch}:{HEAD}"
        self._run(
            "fetch",
            *FETCH_OPTIONS,
            *options,
            "bus",
            branch,
            timeout_s=FETCH_TIMEOUT_S,
            settings={"remote.bus.url": self._remote.url, **PARTIAL},
        )

    def push(self, commit: str) -> bool:
        """Make the commit the newest of the branch; ``False`` if another one came first."""
        target = f"{commit}:refs/heads/{self._remote.branch}"
        options = ("--quiet", "--porcelain", "--no-verify", "--no-recurse-submodules")
        try:
            self._run("push", *options, self._remote.url, target, timeout_s=FETCH_TIMEOUT_S)
        except GitFailed as failure:
            if _is_rejected(str(failure)):
                return False
            if "[remote rejected]" in str(failure):
                raise PushDeclined(str(failure)) from None
            raise
        return True

    # --- reading ----------------------------------------------------------------------------------

    def folder(self, commit: str, path: str) -> list[Entry]:
        """The entries of a folder of the commit, in the order of names; empty if it is not there.

        Raises ``GitFailed``, and ``TooManyNames`` for more than ``MOST_ENTRIES``.
        """
        return self._listed(commit, f"{path}/")

    def entries(self, commit: str, paths: Sequence[str]) -> dict[str, Entry]:
        """Those of the paths that the commit has."""
        return {entry.path: entry for entry in self._listed(commit, *paths)} if paths else {}

    def read(self, entry: Entry) -> bytes:
        """The bytes of a file, whose size the caller has checked. Raises ``GitFailed``."""
        if entry.size is None or entry.size == LEFT_OUT:
            raise GitFailed(f"{entry.path} is no file, or too large to be fetched.")
        return self._run("cat-file", "blob", entry.object_id, most=entry.size)

    def _listed(self, commit: str, *paths: str) -> list[Entry]:
        arguments = ("-z", "--full-tree", commit, "--", *paths)
        try:
            lines = self._run("ls-tree", "-l", *arguments).split(b"\0")
        except GitFailed:  # as when the server has left out one of the files
            lines = self._with_sizes(self._run("ls-tree", *arguments).split(b"\0"))
        if len(lines) > MOST_ENTRIES + 1:
            raise TooManyNames(f"{paths[0]} has more than {MOST_ENTRIES:,} names.")
        return [_entry(line.decode(errors="replace")) for line in lines if line]

    def _with_sizes(self, lines: list[bytes]) -> list[bytes]:
        """The lines as ``ls-tree -l`` writes them; without a size for what is not there."""
        terms = [line.partition(b"\t") for line in lines if line]
        ids = b"".join(before.split()[2] + b"\n" for before, _, _ in terms)
        form = "--batch-check=%(objectsize)"
        sizes = self._run("cat-file", form, given=ids).split(b"\n")
        return [
            b"%s %s\t%s" % (before, b"-" if size.endswith(b"missing") else size, path)
            for (before, _, path), size in zip(terms, sizes, strict=False)
        ]

    # --- history ----------------------------------------------------------------------------------

    def is_ancestor(self, earlier: str, later: str) -> bool:
        """True if the history of ``later`` has ``earlier`` in it, as far as it is known.

        Older history is fetched if needed, 1,000 commits of it. Raises ``GitFailed``.
        """
        return any(self._histories.is_ancestor(earlier, later) for _ in self._deeper())

    def author_of(self, commit: str, path: str, allowed_signers: str = "") -> Author | None:
        """The author who put the file there, as it is in the commit; ``None`` without such a file.

        Older history is fetched if needed, 1,000 commits of it; what is older has no known author.
        With ``allowed_signers`` (lines as ssh-keygen knows them) the signature is verified. It
        counts only if this very content is in the signed commit, and unchanged since. Raises
        ``GitFailed``.
        """
        introduction = None
        for _ in self._deeper():
            introduction = self._histories.introduction(commit, path)
            if introduction is None or introduction not in self._histories.cut_off():
                break
        if introduction is None:
            return None
        return self._histories.author(introduction, commit, path, allowed_signers)

    def message_of(self, commit: str) -> str:
        return self._run("log", "-1", "--format=%B", commit).decode(errors="replace")

    @property
    def _histories(self) -> Histories:
        return Histories(self._program)

    def _deeper(self) -> Iterator[None]:
        """Once with the history that is here, and again with more of it if there is more."""
        yield
        if self._histories.cut_off() and self._histories.length(HEAD) < DEEPER:
            self._fetch(f"--deepen={DEEPER}")
            yield

    # --- writing ----------------------------------------------------------------------------------

    def commit(self, parent: str, change: Change, *, name: str, email: str) -> str:
        """A commit upon ``parent``, only here yet; its id. Raises ``GitFailed``."""
        return self.commits(parent, [change], name=name, email=email)[0]

    def commits(
        self, parent: str, changes: Sequence[Change], *, name: str, email: str
    ) -> list[str]:
        """A commit for each change, one upon the other, only here yet; their ids.

        One call and one push for many: in a repository with large folders that is most of the time.
        Raises ``GitFailed``.
        """
        stream = b"".join(_stream(parent, changes, name, email))
        options = ("--quiet", "--force", "--date-format=now", "--cat-blob-fd=1")
        made = self._run("fast-import", *options, given=stream, timeout_s=FETCH_TIMEOUT_S)
        commits = made.decode().split()
        if not self._remote.signing_key.strip():
            return commits
        return self._signed(parent, list(zip(commits, changes, strict=True)), name, email)

    def _signed(
        self, parent: str, commits: Sequence[tuple[str, Change]], name: str, email: str
    ) -> list[str]:
        """The same commits with our signature, which fast-import cannot make."""
        key = self._program.keep_secret("signing_key", self._remote.signing_key)
        settings = {
            "user.name": _plain(name),
            "user.email": _plain(email),
            "gpg.format": "ssh",
            "user.signingKey": str(key),
        }
        signed: list[str] = []
        for commit, change in commits:
            sign = ["-S"] if change.is_signed else []
            call = ("commit-tree", *sign, f"{commit}^{{tree}}", "-p", parent)
            message = change.message.encode()
            parent = self._run(*call, given=message, settings=settings).decode().strip()
            signed.append(parent)
        return signed

    # --- housekeeping -----------------------------------------------------------------------------

    def tidy(self) -> None:
        """Keep the copy small; quick while there is nothing to do. Raises ``GitFailed``.

        To be called when all that was committed is pushed. Small packs are joined. A copy with a
        long history is made again, with the newest history only.
        """
        packs = self._folder / "objects" / "pack"
        fetched = {path.stem for path in packs.glob("*.promisor")}
        for name in fetched:  # not to be joined with ours: others may be missing from them
            (packs / f"{name}.keep").touch()
        if len(fetched) > MOST_FETCHED_PACKS or self._histories.length(HEAD) > MOST_COMMITS:
            self._make_again()
        elif len(list(packs.glob("*.pack"))) - len(fetched) > MOST_PACKS:
            self._run("repack", "--geometric=2", "-d", "--quiet", timeout_s=FETCH_TIMEOUT_S)

    def _make_again(self) -> None:
        new, old = (
            self._folder.with_name(f"{self._folder.name}.{word}") for word in ("new", "old")
        )
        for folder in (new, old):
            shutil.rmtree(folder, ignore_errors=True)
        with Repository(new, self._remote) as repository:
            repository.fetch()
        self._folder.rename(old)
        new.rename(self._folder)
        shutil.rmtree(old, ignore_errors=True)


# The server is asked to leave out files that are too large to be used. Only a fetch has these
# settings: no other call can fetch such a file later.
PARTIAL = {
    "remote.bus.promisor": "true",
    "remote.bus.partialCloneFilter": f"blob:limit={LARGEST_BLOB}",
}
REJECTIONS = ("[rejected]", "fetch first", "non-fast-forward", "cannot lock ref", "stale info")


def _is_rejected(answer: str) -> bool:
    """True if a push was refused because the branch had moved."""
    return any(words in answer for words in REJECTIONS)


def _entry(line: str) -> Entry:
    """One line of ``git ls-tree -l``: ``<mode> <type> <object> <size>\\t<path>``."""
    terms, _, path = line.partition("\t")
    mode, kind, object_id, shown = terms.split()
    size = int(shown) if shown.isdecimal() else LEFT_OUT
    return Entry(path, mode, object_id, size if kind == "blob" else None)


def _stream(parent: str, changes: Sequence[Change], name: str, email: str) -> Iterator[bytes]:
    """The commits as git fast-import reads them; their ids are asked for."""
    yield f"reset {WORK}\nfrom {parent}\n\n".encode()
    for mark, change in enumerate(changes, start=1):
        yield f"commit {WORK}\nmark :{mark}\n".encode()
        yield f"committer {_plain(name)} <{_plain(email)}> now\n".encode()
        yield from _data(change.message.encode())
        yield from _files(change)
        yield f"\nget-mark :{mark}\n".encode()
    yield b"done\n"


def _files(change: Change) -> Iterator[bytes]:
    """Raises ``ValueError`` for a path that no bus has."""
    for path in (*change.removed, *change.renamed, *change.renamed.values(), *change.written):
        if not all(PLAIN_NAME.fullmatch(part) for part in path.split("/")):
            raise ValueError(f"{path!r} is no path of a bus.")
    for path in change.removed:
        yield f"D {path}\n".encode()
    for source, target in change.renamed.items():
        yield f"R {source} {target}\n".encode()
    for path, content in change.written.items():
        yield f"M {REGULAR_FILE} inline {path}\n".encode()
        yield from _data(content)


def _data(content: bytes) -> Iterable[bytes]:
    yield f"data {len(content)}\n".encode()
    yield content + b"\n"


def _plain(text: str) -> str:
    """A name or address as git keeps it; git refuses one of nothing but punctuation."""
    return re.sub(r"[<>\n\0]", " ", text).strip(" .,:;\"\\'") or "Assent"
