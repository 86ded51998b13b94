"""What a remote agent is sent: our client's own parts, in media types that its card takes.

Most agents read a prompt from the texts of a message, so whatever can be said as text is said as
text; data goes along only to those whose card takes JSON.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from a2a.models import Role, Task
from a2a.remote.agents import SKILLS_EXTENSION, skills_of
from a2a.wire.sdk import pb

Part = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Tastes:
    """What the remote's card says of a skill: its id there, and what it takes."""

    skill_id: str
    takes_text: bool
    takes_json: bool
    is_one_of_us: bool  # it reads {"skill": …, "input": …}, as we do


def tastes_of(card: pb.AgentCard, slug: str) -> Tastes:
    """By the skill's input modes, else by the card's; an agent that names none takes text."""
    offered = skills_of(card).get(slug, {})
    modes = (offered.get("modes") or [[]])[0] or list(card.default_input_modes) or ["text/plain"]
    kinds = {mode.partition(";")[0].strip().lower() for mode in modes}
    takes_json = any("json" in kind or kind in {"*/*", "application/*", "data"} for kind in kinds)
    return Tastes(
        skill_id=offered.get("remote_id", slug),
        takes_text=not takes_json or any(kind.startswith(("text", "*/*")) for kind in kinds),
        takes_json=takes_json,
        is_one_of_us=any(
            extension.uri == SKILLS_EXTENSION for extension in card.capabilities.extensions
        ),
    )


def parts_of_task(task: Task, tastes: Tastes) -> list[Part]:
    """The task's input as the remote can read it, with the files that came along."""
    asked = {"skill": tastes.skill_id, "input": task.input}
    first = task.messages.filter(role=Role.USER).order_by("pk").first()
    sent: list[Part] = first.parts if first else []
    files = [part for part in sent if "url" in part or "raw" in part]
    if tastes.is_one_of_us:
        return [{"data": asked}, *files]
    if sent and not any("data" in part for part in sent):
        return sent
    texts = [part for part in sent if "text" in part]
    if _sole_text(task.input) is not None and tastes.takes_text:
        return [*(texts or _as_texts(task.input, tastes)), *files]
    data = [{"data": asked}] if tastes.takes_json else []
    # What stands in the data is said once more only to those who cannot read it there.
    said = texts if texts and data else [*texts, *_as_texts(task.input, tastes)]
    return [*said, *data, *files]


def parts_of_answer(value: Any, tastes: Tastes) -> list[Part]:
    is_text = _sole_text(value) is not None
    data = [{"data": value}] if tastes.takes_json and not is_text else []
    return [*_as_texts(value, tastes), *data]


def _as_texts(value: Any, tastes: Tastes) -> list[Part]:
    """The text that a value is; or its JSON, for agents that read texts."""
    text = _sole_text(value)
    if text is not None:
        return [{"text": text}]
    if not tastes.takes_text:
        return []
    return [{"text": json.dumps(value, ensure_ascii=False)}]


def _sole_text(value: Any) -> str | None:
    """The text of ``"hello"`` and of ``{"text": "hello"}``."""
    if isinstance(value, dict) and len(value) == 1:
        (value,) = value.values()
    return value if isinstance(value, str) else None
