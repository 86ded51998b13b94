"""A call: one request to an operation, the same for every binding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from a2a.submissions import Submission, from_message
from a2a.validation import ENVELOPE_EXTENSION

Json = dict[str, Any]
# Bytes. A batch of larger requests would not fit into one statement, and larger ones would hold up
# the event loop.
LARGEST_IN_BATCH = 64 * 1024


@dataclass(frozen=True, slots=True)
class Call:
    """The parameters are those of A2A 1.0 as JSON, as the client sent them.

    ``skill`` is the one whose address was called, empty for the address of all skills; ``key`` is
    the Idempotency-Key, which may be in the metadata or the envelope instead.
    """

    operation: str
    params: Any
    token: str
    skill: str = ""
    key: str = ""
    client: str = ""  # its network address
    size: int = 0  # bytes of the body

    @property
    def fits_batch(self) -> bool:
        return isinstance(self.params, dict) and self.size <= LARGEST_IN_BATCH


def submission_of(call: Call) -> Submission:
    """The submission that a message to a new task asks for. Raises ``InvalidRequest``."""
    message = call.params["message"]
    metadata = [message.get("metadata", {}), call.params.get("metadata", {})]
    configuration = call.params.get("configuration", {})
    return from_message(
        parts=message["parts"],
        metadata=metadata[0] | metadata[1],
        envelope=next(
            (each[ENVELOPE_EXTENSION] for each in metadata if ENVELOPE_EXTENSION in each), None
        ),
        message_id=message.get("messageId", ""),
        context_id=message.get("contextId", ""),
        key=call.key,
        address=call.skill,
        references=message.get("referenceTaskIds", []),
        accepted_modes=configuration.get("acceptedOutputModes", []),
        push=configuration.get("taskPushNotificationConfig"),
    )
