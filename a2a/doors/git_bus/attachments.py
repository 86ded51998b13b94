"""Artifacts of a task as files of a bus, and the other way round."""

from __future__ import annotations

import base64
import json
import mimetypes
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import chain, count
from typing import Any

from a2a.doors.git_bus.repository import files
from a2a.doors.git_bus.repository.files import Attachment
from a2a.models import Artifact, Task

UNUSABLE = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(slots=True)
class Attached:
    """The files that go along, and what does not fit: ``{name, size, sha256}`` of each."""

    files: list[Attachment] = field(default_factory=list)
    left_out: list[dict[str, Any]] = field(default_factory=list)


def of(task: Task) -> Attached:
    """The artifacts as files with different names, within the limits of the bus."""
    attached, names, size = Attached(), {files.METADATA}, 0
    for each in _files_of(task):
        each = replace(each, name=_free(each.name, names))
        names.add(each.name.lower())
        length = len(each.content)
        is_too_much = size + length > files.LARGEST_FOLDER
        if length > files.LARGEST_FILE or is_too_much or len(attached.files) == files.MOST_FILES:
            digest = sha256(each.content).hexdigest()
            attached.left_out.append({"name": each.name, "size": length, "sha256": digest})
        else:
            size += length
            attached.files.append(each)
    return attached


def _free(name: str, taken: set[str]) -> str:
    """The name, or one like it that no other file has."""
    candidates = (f"{number}-{name}"[:120] for number in count(2))
    return next(each for each in chain([name], candidates) if each.lower() not in taken)


def _files_of(task: Task) -> Iterator[Attachment]:
    for artifact in task.artifacts.order_by("pk"):
        for number, part in enumerate(artifact.parts):
            if "data" not in part or part["data"] != task.result:
                yield from _file_of(artifact, part, number)


def _file_of(artifact: Artifact, part: dict[str, Any], number: int) -> Iterator[Attachment]:
    if "text" in part:
        content, media_type = part["text"].encode(), part.get("mediaType", "text/plain")
    elif "data" in part:
        text = json.dumps(part["data"], ensure_ascii=False, indent=2)
        content, media_type = f"{text}\n".encode(), "application/json"
    elif "raw" in part:
        content = base64.b64decode(part["raw"])
        media_type = part.get("mediaType", "application/octet-stream")
    else:
        return
    name = _name_of(artifact, part, media_type, number)
    yield Attachment(name, media_type, artifact.name, content)


def _name_of(artifact: Artifact, part: dict[str, Any], media_type: str, number: int) -> str:
    given = UNUSABLE.sub("-", str(part.get("filename") or "").rpartition("/")[2]).strip(".-")[-100:]
    if files.is_usable_id(given):
        return given
    plain = UNUSABLE.sub("-", artifact.artifact_id).strip(".-")[:80] or "artifact"
    suffix = mimetypes.guess_extension(media_type.partition(";")[0]) or ".bin"
    return f"{plain}-{number + 1}{suffix}"


# --- the other way round ----------------------------------------------------------------------


def part_of(name: str, media_type: str, content: bytes) -> dict[str, Any]:
    """The part of a message that a file becomes: text if it is, else its bytes in base64."""
    is_text = media_type.startswith("text/") or media_type in {"application/json", ""}
    if is_text and b"\0" not in content:
        try:
            text = content.decode()
        except UnicodeDecodeError:
            pass
        else:
            return {"text": text, "filename": name, "mediaType": media_type or "text/plain"}
    raw = base64.b64encode(content).decode()
    return {"raw": raw, "filename": name, "mediaType": media_type or "application/octet-stream"}
