"""The files of a bus: where they are, what is in them, and which faults they may have.

The rules are those of the public repository dobryakov/a2a-example (protocol 1.x) where it has some.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from itertools import permutations
from typing import Any

from a2a.doors.git_bus.repository import json_files
from a2a.doors.git_bus.repository.git import Entry
from a2a.validation import cost_in
from ledger.foundation.characters import unsafe_in

METADATA = "metadata.json"
SETTINGS_PATH = "config/a2a-environment.json"
MAJOR_VERSION = "1"
ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
FOLDER = re.compile(r"[A-Za-z0-9._-]+(?:/[A-Za-z0-9._-]+)*")
# Names that Windows gives to devices, whatever their ending.
DEVICES = re.compile(r"(?i)(con|prn|aux|nul|com[0-9]|lpt[0-9])(\.|$)")
PROCESSED = "Processed {request_id}"
LARGEST_REQUEST = 1024 * 1024  # bytes
LARGEST_RESPONSE = 10 * 1024 * 1024
LARGEST_FILE = 10 * 1024 * 1024
LARGEST_FOLDER = 50 * 1024 * 1024
MOST_FILES = 200  # beside one answer
LONGEST_SENDER = 200  # characters


class BusUnusable(Exception):
    """The repository is no bus, or one of another version."""


class RequestInvalid(Exception):
    """The file is no request; ``code`` is that of JSON-RPC."""

    def __init__(self, code: int, detail: str) -> None:
        super().__init__(detail)
        self.code = code


@dataclass(frozen=True, slots=True)
class Folders:
    """The places of things in the repository; paths without a slash at the end."""

    inbox: str = "inbox"
    processing: str = "processing"
    outbox: str = "outbox"
    archive: str = "archive"
    participants: str = ".well-known/agents"
    processed: str = PROCESSED  # the message of the commit that ends a request

    def request(self, request_id: str) -> str:
        return f"{self.inbox}/{request_id}.json"

    def claimed(self, request_id: str) -> str:
        return f"{self.processing}/{request_id}.json"

    def archived(self, request_id: str) -> str:
        return f"{self.archive}/{request_id}.json"

    def response(self, request_id: str) -> str:
        return f"{self.outbox}/res_{request_id}.json"

    def attachment(self, request_id: str, name: str) -> str:
        return f"{self.outbox}/{request_id}/{name}"

    def all_of(self, request_id: str) -> list[str]:
        """The paths at which a request of that id, or its answer, may be."""
        return [
            self.request(request_id),
            self.claimed(request_id),
            self.archived(request_id),
            self.response(request_id),
        ]

    def participant_file(self, agent_id: str) -> str:
        return f"{self.participants}/{agent_id}.json"


@dataclass(frozen=True, slots=True)
class Request:
    """One request. ``sender_id`` is named by the sender, if at all, and proven by nothing."""

    id: str
    method: str
    params: dict[str, Any]
    sender_id: str
    timestamp: str
    parent_id: str
    digest: str  # SHA-256 of the file


@dataclass(frozen=True, slots=True)
class Response:
    """One answer; exactly one of ``result`` and ``error`` is set."""

    result: dict[str, Any] | None
    error: dict[str, Any] | None
    processed_by: str
    cost: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file beside an answer."""

    name: str
    media_type: str
    description: str
    content: bytes


def folders_of(text: bytes) -> Folders:
    """The folders that the environment file names. Raises ``BusUnusable``."""
    settings = json_files.object_in(text)
    if settings is None:
        raise BusUnusable(f"{SETTINGS_PATH} is not a JSON object.")
    version = str(settings.get("a2a_environment_version", ""))
    if version.partition(".")[0] != MAJOR_VERSION:
        raise BusUnusable(f"{SETTINGS_PATH} has the version {version[:20]!r}, not 1.x.")
    named = settings.get("directories_relative_to_repo_root")
    named = named if isinstance(named, dict) else {}
    message = settings.get("commit_message_processed_template", PROCESSED)
    if not isinstance(message, str) or "{request_id}" not in message or "\n" in message:
        raise BusUnusable("commit_message_processed_template does not name {request_id}.")
    folders = Folders(
        inbox=_folder(named, "inbox", "inbox"),
        processing=_folder(named, "processing", "processing"),
        outbox=_folder(named, "outbox", "outbox"),
        archive=_folder(named, "archive", "archive"),
        participants=_folder(named, "agents_manifest_directory", ".well-known/agents"),
        processed=message[:200],
    )
    paths = [
        folders.inbox,
        folders.processing,
        folders.outbox,
        folders.archive,
        folders.participants,
    ]
    for path, other in permutations([*paths, "config"], 2):
        if f"{path}/".startswith(f"{other}/"):
            raise BusUnusable(f"{SETTINGS_PATH} names folders that lie in each other.")
    return folders


def _folder(named: Mapping[str, Any], key: str, usual: str) -> str:
    path = named.get(key, usual)
    path = path.strip("/") if isinstance(path, str) else ""
    parts = path.split("/")
    if not FOLDER.fullmatch(path) or {".", "..", ".git"} & {part.lower() for part in parts}:
        raise BusUnusable(f"{SETTINGS_PATH} names no usable folder for {key!r}.")
    return path


def is_usable_id(text: str) -> bool:
    """True if an id can be a file name everywhere."""
    return bool(ID.fullmatch(text)) and not DEVICES.match(text) and not text.endswith(".")


def is_request(name: str) -> bool:
    """True if a file of that name in a queue folder is a request."""
    return name.endswith(".json") and is_usable_id(id_of(name))


def is_passed_over(name: str) -> bool:
    """Names that mean nothing: hidden files, and those that somebody is still writing."""
    return name.startswith(".") or name.endswith((".tmp", ".swp", ".lock", ".part", "~"))


def id_of(name: str) -> str:
    return name.removesuffix(".json")


def is_small(entry: Entry) -> bool:
    """True if it is a regular file that may be read as a request is."""
    return entry.is_plain_file and entry.size is not None and entry.size <= LARGEST_REQUEST


# --- requests -----------------------------------------------------------------------------------


def request_of(name: str, text: bytes, *, demands_sender: bool = False) -> Request:
    """The request in the file ``name``; with its sender and time, if that is demanded.

    Raises ``RequestInvalid``.
    """
    fields = json_files.object_in(text)
    if fields is None:
        raise RequestInvalid(-32700, "The file is not one JSON object in UTF-8.")
    required = ("sender_id", "timestamp") if demands_sender else ()
    lacking = [f"{each} is missing" for each in required if fields.get(each) is None]
    if faults := [*lacking, *(fault for fault, is_so in _faults(name, fields).items() if is_so)]:
        raise RequestInvalid(-32600, f"The request cannot be used: {'; '.join(faults)}.")
    return Request(
        id=fields["id"],
        method=fields["method"],
        params=fields["params"],
        sender_id=fields.get("sender_id") or "",
        timestamp=fields.get("timestamp") or "",
        parent_id=fields.get("parent_id") or "",
        digest=sha256(text).hexdigest(),
    )


def _faults(name: str, fields: Mapping[str, Any]) -> dict[str, bool]:
    parent, sender, timestamp = (fields.get(n) for n in ("parent_id", "sender_id", "timestamp"))
    return {
        'jsonrpc is not "2.0"': fields.get("jsonrpc") != "2.0",
        "method is not one line of text": not _is_line(fields.get("method"), 200),
        "params is not an object": not isinstance(fields.get("params"), dict),
        "id is not the name of the file": fields.get("id") != name.removesuffix(".json"),
        "sender_id is not one line of text": sender is not None
        and not _is_line(sender, LONGEST_SENDER),
        "timestamp is not a time of ISO 8601": timestamp is not None and not _is_time(timestamp),
        "parent_id is not an id": parent is not None
        and not (isinstance(parent, str) and is_usable_id(parent)),
        "it is its own parent": parent is not None and parent == fields.get("id"),
    }


def _is_text(value: Any, longest: int) -> bool:
    return isinstance(value, str) and len(value.strip()) > 0 and len(value) <= longest


def _is_line(value: Any, longest: int) -> bool:
    return _is_text(value, longest) and value.isprintable() and not unsafe_in(value)


def _is_time(value: Any) -> bool:
    try:
        datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return False
    return True


def request_file(
    request_id: str,
    method: str,
    params: Mapping[str, Any],
    *,
    sender_id: str,
    at: datetime,
    parent_id: str = "",
) -> bytes:
    fields: dict[str, Any] = {
        "jsonrpc": "2.0",
        "method": method,
        "params": params,
        "id": request_id,
        "sender_id": sender_id,
        "timestamp": at.isoformat(timespec="seconds"),
    }
    if parent_id:
        fields["parent_id"] = parent_id
    return json_files.as_file(fields)


# --- responses ----------------------------------------------------------------------------------


def response_file(
    request_id: str,
    *,
    processed_by: str,
    result: Mapping[str, Any] | None = None,
    error: Mapping[str, Any] | None = None,
    cost: Mapping[str, Any] | None = None,
) -> bytes:
    return json_files.as_file(
        {
            "jsonrpc": "2.0",
            "result": result,
            "error": error,
            "id": request_id,
            "processed_by": processed_by,
            **({"metadata": {"cost": cost}} if cost else {}),
        }
    )


def response_of(request_id: str, text: bytes) -> Response:
    """Raises ``RequestInvalid`` for what is no answer to that request."""
    fields = json_files.object_in(text)
    if fields is None or fields.get("id") != request_id:
        raise RequestInvalid(-32603, "The answer is not a JSON object with the id of the request.")
    result, error = fields.get("result"), fields.get("error")
    by, cost = str(fields.get("processed_by", ""))[:200], cost_in(fields.get("metadata"))
    if error is None and isinstance(result, dict):
        return Response(result, None, by, cost)
    if result is None and isinstance(error, dict):
        return Response(None, error, by, cost)
    raise RequestInvalid(-32603, "The answer has not exactly one of result and error.")


def names_a_folder(response: Response) -> bool:
    """True if the answer says that there are attachments."""
    envelope = (response.result or {}).get("envelope")
    return isinstance(envelope, dict) and bool(envelope.get("artifact_files"))


def attachments_in(text: bytes) -> dict[str, str]:
    """The media type of each file that a ``metadata.json`` lists. Raises ``RequestInvalid``."""
    fields = json_files.object_in(text)
    listed = fields.get("files") if fields is not None else None
    if not isinstance(listed, list) or len(listed) > MOST_FILES:
        raise RequestInvalid(-32603, f"{METADATA} lists no files, or more than {MOST_FILES}.")
    named: dict[str, str] = {}
    for each in listed:
        name = each.get("name") if isinstance(each, dict) else None
        if not isinstance(name, str) or not is_usable_id(name):
            raise RequestInvalid(-32603, f"{METADATA} names a file that cannot be one.")
        media_type = each.get("type")
        named[name] = media_type[:100] if isinstance(media_type, str) else ""
    return named


def metadata_file(
    request_id: str,
    attachments: Sequence[Attachment],
    *,
    processed_by: str,
    at: datetime,
    summary: str,
) -> bytes:
    files = [
        {
            "name": each.name,
            "type": each.media_type,
            "description": each.description,
            "size": len(each.content),
            "sha256": sha256(each.content).hexdigest(),
        }
        for each in attachments
    ]
    return json_files.as_file(
        {
            "jsonrpc": "2.0",
            "id": request_id,
            "processed_by": processed_by,
            "timestamp": at.isoformat(timespec="seconds"),
            "summary": summary,
            "files": files,
        }
    )


# --- participant files --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Participant:
    """The role and the methods of a participant, as its file names them."""

    agent_id: str
    role: str
    description: str
    methods: tuple[str, ...]


def read_participant(name: str, text: bytes) -> Participant | None:
    """``None`` if the file does not describe the agent that the file is named after."""
    fields = json_files.object_in(text)
    if fields is None or fields.get("agent_id") != name.removesuffix(".json"):
        return None
    methods = fields.get("methods") or fields.get("capabilities") or []
    return Participant(
        agent_id=str(fields["agent_id"])[:100],
        role=str(fields.get("role", ""))[:200],
        description=str(fields.get("description", ""))[:2000],
        methods=tuple(m[:200] for m in methods if isinstance(m, str))[:100]
        if isinstance(methods, list)
        else (),
    )


def write_participant(
    agent_id: str, folders: Folders, *, role: str, description: str, methods: Sequence[str]
) -> bytes:
    return json_files.as_file(
        {
            "agent_id": agent_id,
            "role": role,
            "capabilities": sorted(methods),
            "methods": sorted(methods),
            "version": "1.0",
            "inbox_path": f"{folders.inbox}/",
            "description": description,
        }
    )
