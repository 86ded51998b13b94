"""Messages of clients: one of JSON-RPC, of the revision with envelopes or of an older one.

Revision 2026-07-28 has no handshake: each request says in ``_meta`` which version its client
speaks and what it can do, and repeats version, method and name in headers.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MODERN = "2026-07-28"
OLDER = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")  # newest first
VERSIONS = (MODERN, *OLDER)
TASKS = "io.modelcontextprotocol/tasks"
_PREFIX = "io.modelcontextprotocol/"
VERSION_KEY, CAPABILITIES_KEY = f"{_PREFIX}protocolVersion", f"{_PREFIX}clientCapabilities"
SERVER_KEY = f"{_PREFIX}serverInfo"
PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS = -32700, -32600, -32601, -32602
INTERNAL_ERROR = -32603
HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION = -32020, -32021, -32022
# Which parameter the header Mcp-Name repeats.
NAMES = {"tools/call": "name", "tasks/get": "taskId", "tasks/cancel": "taskId"}
NAMES |= {"tasks/update": "taskId"}

Json = dict[str, Any]
Headers = Mapping[bytes, bytes]


class Fault(Exception):
    """A request that is answered with an error of JSON-RPC."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code, self.message, self.data = code, message, data


@dataclass(frozen=True, slots=True)
class Incoming:
    """A message. ``id`` is ``None`` for a notification, which nobody answers."""

    method: str
    params: Json
    id: str | int | None
    is_modern: bool

    @property
    def meta(self) -> Json:
        meta = self.params.get("_meta")
        return meta if isinstance(meta, dict) else {}

    @property
    def takes_tasks(self) -> bool:
        """True if this very request says that its client follows tasks."""
        capabilities = self.meta.get(CAPABILITIES_KEY) if self.is_modern else None
        extensions = capabilities.get("extensions") if isinstance(capabilities, dict) else None
        return isinstance(extensions, dict) and isinstance(extensions.get(TASKS), dict)

    @property
    def progress_token(self) -> str | int | None:
        token = self.meta.get("progressToken")
        return token if _is_id(token) else None


def read(body: Any, headers: Headers) -> Incoming:
    """The message of a body. Raises ``Fault``."""
    if isinstance(body, list):
        raise Fault(INVALID_REQUEST, "Send one message in a request; batches are not read.")
    if not isinstance(body, dict) or body.get("jsonrpc") != "2.0":
        raise Fault(INVALID_REQUEST, "The body is no request or notification of JSON-RPC 2.0.")
    method, params = body.get("method"), body.get("params", {})
    if not isinstance(method, str) or not isinstance(params, dict):
        raise Fault(INVALID_REQUEST, "A message has a method, and params that are an object.")
    if "id" in body and not _is_id(body["id"]):
        raise Fault(INVALID_REQUEST, "An id is a text or an integer.")
    message = Incoming(method, params, body.get("id"), _is_modern(params, headers))
    if message.is_modern and message.id is not None:
        _check_envelope(message, headers)
    elif not message.is_modern:
        _check_older_version(message, headers)
    return message


def id_of(body: Any) -> str | int | None:
    """The id of a message that may be of any form."""
    request_id = body.get("id") if isinstance(body, dict) else None
    return request_id if _is_id(request_id) else None


def _is_id(value: Any) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


def _is_modern(params: Json, headers: Headers) -> bool:
    """True if the envelope or the header speaks of a revision without a handshake."""
    meta = params.get("_meta")
    has_envelope = isinstance(meta, dict) and VERSION_KEY in meta
    return has_envelope or _header(headers, b"mcp-protocol-version") == MODERN


def _check_envelope(message: Incoming, headers: Headers) -> None:
    """Raises ``Fault``: in the order of the specification, so that clients learn the right one."""
    missing = [key for key in (VERSION_KEY, CAPABILITIES_KEY) if key not in message.meta]
    if missing:
        raise Fault(INVALID_PARAMS, f"params._meta lacks {' and '.join(missing)}.")
    version = message.meta[VERSION_KEY]
    if _header(headers, b"mcp-protocol-version") != version:
        raise Fault(HEADER_MISMATCH, "MCP-Protocol-Version is not the version of the envelope.")
    if _header(headers, b"mcp-method") != message.method:
        raise Fault(HEADER_MISMATCH, "Mcp-Method is not the method of the body.")
    _check_name(message, headers)
    if version != MODERN:
        raise _unsupported(version)


def _check_name(message: Incoming, headers: Headers) -> None:
    name = message.params.get(NAMES.get(message.method, ""))
    header = _decoded(_header(headers, b"mcp-name"))
    is_task = message.method.startswith("tasks/")  # clients leave it out there
    if name is not None and header != name and not (is_task and header is None):
        raise Fault(HEADER_MISMATCH, "Mcp-Name is not the name in the body.")


def _check_older_version(message: Incoming, headers: Headers) -> None:
    """No header at all means one of the oldest revisions. Raises ``Fault``."""
    version = _header(headers, b"mcp-protocol-version")
    if version is not None and version not in OLDER and message.method != "initialize":
        raise _unsupported(version)


def _unsupported(version: Any) -> Fault:
    data = {"supported": list(VERSIONS), "requested": str(version)[:100]}
    return Fault(UNSUPPORTED_VERSION, "This version of the protocol is not spoken here.", data)


def _header(headers: Headers, name: bytes) -> str | None:
    value = headers.get(name)
    return None if value is None else value.decode("latin-1").strip()


def _decoded(value: str | None) -> str | None:
    """A header as it was meant: what is no plain ASCII comes as ``=?base64?…?=``."""
    if value is None or not (value.startswith("=?base64?") and value.endswith("?=")):
        return value
    try:
        return base64.b64decode(value[9:-2], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""
