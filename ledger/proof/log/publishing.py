"""Publishing checkpoints outside the database: into a file, and as a line of the server log.

An attacker with the database and the signing key cannot take back what was published.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import re
from itertools import islice
from pathlib import Path

from django.conf import settings

from ledger.foundation.crypto import signed_notes
from ledger.foundation.crypto.signed_notes import NoteRefused, TreeHead
from ledger.models.events import Checkpoint
from ledger.proof.log import checkpoints

logger = logging.getLogger("assent.log")

MOST_AT_ONCE = 1_000
TAIL = 2 * signed_notes.LARGEST_NOTE
_END_OF_NOTE = re.compile(rb"(?:\xe2\x80\x94 [^\n]+\n)\n")


def published() -> list[TreeHead]:
    """The newest checkpoint in the file; none where no file is kept.

    Raises ``NoteRefused`` and ``OSError``: without knowing what was published, sign nothing.
    """
    if not settings.LOG_FILE:
        return []
    heads = [TreeHead.parse(note.text) for note in signed_notes.notes_in(_tail()[1])]
    return [max(heads, key=lambda head: head.size)] if heads else []


def catch_up() -> int:
    """Append every checkpoint that is newer than the file; how many there were."""
    if not settings.LOG_FILE:
        return 0
    newest = max((head.size for head in published()), default=0)
    newer = checkpoints.signed_by_us(Checkpoint.objects.filter(size__gt=newest).order_by("size"))
    appended = 0
    for point in islice(newer, MOST_AT_ONCE):
        append(checkpoints.cosigned_note(point))
        appended += 1
    return appended


def append(note: signed_notes.Note) -> None:
    """Append one note and a blank line; they are on the disk when this returns."""
    if not settings.LOG_FILE:
        return
    descriptor = os.open(settings.LOG_FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        end, _ = _tail()
        if os.fstat(descriptor).st_size > end:
            os.ftruncate(descriptor, end)  # a note cut off by a full disk or a crash
        os.write(descriptor, f"{note}\n".encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def announce(point: Checkpoint) -> None:
    """Log one line of JSON, for a collector that keeps logs on another machine."""
    head = TreeHead.parse(checkpoints.signed_note(point).text)
    fields = {"origin": head.origin, "size": head.size, "root": point.root, "note": point.note}
    logger.info("%s", json.dumps({"checkpoint": fields}, ensure_ascii=False))


def notes_of(text: str) -> list[signed_notes.Note]:
    """The notes of a published file: notes themselves, or log lines that announced them.

    Raises ``NoteRefused``.
    """
    if '{"checkpoint": ' not in text:
        return signed_notes.notes_in(text)
    announced = []
    for line in text.splitlines():
        _, mark, rest = line.partition('{"checkpoint": ')
        if mark:
            try:
                announced.append(
                    signed_notes.Note.parse(json.loads(mark + rest)["checkpoint"]["note"])
                )
            except (ValueError, KeyError, TypeError) as failure:
                raise NoteRefused(f"{line[:200]!r} announces no checkpoint.") from failure
    return announced


def _tail() -> tuple[int, str]:
    """The place at which the last whole note ends, and the whole notes shortly before that."""
    path = Path(settings.LOG_FILE)
    if not path.exists():
        return 0, ""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        begin = max(0, size - TAIL)
        file.seek(begin)
        raw = file.read()
    ends = [match.end() for match in _END_OF_NOTE.finditer(raw)]
    if not ends:
        if raw.strip():
            raise NoteRefused(f"{path} holds something else than checkpoints.")
        return 0, ""
    first = 0 if begin == 0 else ends[0]
    return begin + ends[-1], raw[first : ends[-1]].decode()
