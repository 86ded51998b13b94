"""From an A2A message to a submission."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from a2a.submissions import addressing
from a2a.submissions.drafts import Submission
from a2a.validation import ENVELOPE_EXTENSION, Part


def from_message(
    *,
    parts: list[Part],
    metadata: dict[str, Any],
    envelope: Any,
    message_id: str,
    context_id: str,
    key: str,
    address: str,
    references: Sequence[str] = (),
    accepted_modes: Sequence[str] = (),
    push: dict[str, Any] | None = None,
) -> Submission:
    """The demand of a message. ``key`` is the Idempotency-Key header, ``address`` the skill's.

    The metadata may hold the idempotency key and the version of the card as well. ``references``
    are ids of tasks; one that can be revised is the one to revise. ``accepted_modes`` are media
    types that the client takes, ``push`` is where it hears of changes. Raises ``InvalidRequest``
    when the message and its address name different skills.
    """
    metadata = {name: value for name, value in metadata.items() if name != ENVELOPE_EXTENSION}
    skill, value = addressing.read(parts, metadata, envelope)
    idempotency_key = key or str(metadata.pop("idempotency_key", ""))
    card_version = str(metadata.pop("card_version", ""))[:50]
    return Submission(
        skill=addressing.at(address, skill),
        input=value,
        parts=parts,
        message_id=message_id,
        context_id=context_id,
        metadata=metadata,
        envelope=envelope,
        idempotency_key=idempotency_key,
        card_version=card_version,
        references=list(references),
        reads_text=_reads_text(parts, accepted_modes),
        push=push,
    )


def _reads_text(parts: list[Part], accepted_modes: Sequence[str]) -> bool:
    """True for a client that accepts text; one that says nothing reads what it writes."""
    if accepted_modes:
        return any(str(mode).startswith(("text", "*")) for mode in accepted_modes)
    return all("text" in part for part in parts)
