"""Rows ⇄ JSON: of the protocol (``to_json``, ``remote``) and of the plain dialect.

``sdk`` has everything of the A2A SDK that Assent uses, and is imported as a module.
"""

from a2a.wire.plain_json import (
    artifact_as_json,
    event_as_json,
    message_as_json,
    question_as_json,
    reason_and_details,
    task_as_json,
    work_as_json,
)
from a2a.wire.remote import (
    BINDINGS,
    CAPABILITIES,
    Connection,
    RemoteCard,
    RemoteTask,
    TaskUnknown,
    card_from_json,
)
from a2a.wire.to_json import (
    event_to_json,
    open_question,
    render,
    state_for_client,
    state_in,
    state_named,
    task_to_json,
)

__all__ = [
    "BINDINGS",
    "CAPABILITIES",
    "Connection",
    "RemoteCard",
    "RemoteTask",
    "TaskUnknown",
    "artifact_as_json",
    "card_from_json",
    "event_as_json",
    "event_to_json",
    "message_as_json",
    "open_question",
    "question_as_json",
    "reason_and_details",
    "render",
    "state_for_client",
    "state_in",
    "state_named",
    "task_as_json",
    "task_to_json",
    "work_as_json",
]
