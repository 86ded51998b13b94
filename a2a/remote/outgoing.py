"""Messages to remote agents: the client's own parts, in media types that the agent's card takes.

Most agents read a prompt from the texts of a message, so everything that can be sent as text is
sent as text. Data goes along only to agents whose card takes JSON.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from a2a import validation
from a2a.models import Mirror, Question, RemoteAgent, Role, Task
from a2a.remote.cards import skills_of
from a2a.validation import Part
from a2a.wire import RemoteCard, card_from_json
from ledger.api.http import address_of


@dataclass(frozen=True, slots=True)
class Accepts:
    """The input that a skill of a remote agent takes, by its card."""

    skill_id: str  # the skill's id there
    text: bool
    json: bool
    requests: bool  # {"skill": …, "input": …}, as Assent itself takes


def accepted_by(card: RemoteCard, slug: str) -> Accepts:
    """By the skill's input modes, else by the card's; an agent that names none takes text."""
    skill = skills_of(card).get(slug)
    modes = (skill.input_modes if skill else []) or card.input_modes or ["text/plain"]
    kinds = {mode.partition(";")[0].strip().lower() for mode in modes}
    takes_json = any("json" in kind or kind in {"*/*", "application/*", "data"} for kind in kinds)
    return Accepts(
        skill_id=skill.remote_id if skill else slug,
        text=not takes_json or any(kind.startswith(("text", "*/*")) for kind in kinds),
        json=takes_json,
        requests=validation.SKILLS_EXTENSION in card.extensions,
    )


def takes_files(remote: RemoteAgent, slug: str) -> bool:
    """True if its card names, for this skill or for all, a type of files other than JSON."""
    card = card_from_json(remote.card)
    skill = skills_of(card).get(slug)
    modes = (skill.input_modes if skill else []) or card.input_modes
    kinds = {mode.partition(";")[0].strip().lower() for mode in modes}
    return any("/" in kind and "json" not in kind and kind != "text/plain" for kind in kinds)


def first_message(mirror: Mirror) -> dict[str, Any]:
    """The message that submits the task there. Its id is the same at every attempt."""
    task, accepts = mirror.task, _accepts(mirror)
    return {
        **_references(mirror),
        "messageId": str(task.pk),
        "role": "ROLE_USER",
        "parts": parts_of_task(task, accepts),
        "metadata": {"skill": accepts.skill_id, "idempotency_key": str(task.pk)},
    }


def _references(mirror: Mirror) -> dict[str, Any]:
    """Of a revision: the task there that it revises, and its context."""
    earlier = Mirror.objects.filter(task=mirror.task.revises_id, remote=mirror.remote_id).first()
    if earlier is None or not earlier.remote_task_id:
        return {}
    context = {"contextId": earlier.remote_context_id} if earlier.remote_context_id else {}
    return {"referenceTaskIds": [earlier.remote_task_id], **context}


def push_config(mirror: Mirror) -> dict[str, Any] | None:
    """The address where the agent may push, if an operator wants that and its card offers it."""
    card = card_from_json(mirror.remote.card)
    if not mirror.remote.wants_push or "push_notifications" not in card.capabilities:
        return None
    return {"url": address_of(f"/a2a/news/{mirror.pk}"), "token": mirror.secret}


def answer_message(mirror: Mirror, question: Question) -> dict[str, Any]:
    """The message that tells the agent an answer. Its id is the same at every attempt."""
    return {
        "messageId": f"answer-{question.pk}",
        "role": "ROLE_USER",
        "taskId": mirror.remote_task_id,
        "contextId": mirror.remote_context_id,
        "parts": parts_of_answer(question.answer, _accepts(mirror)),
    }


def _accepts(mirror: Mirror) -> Accepts:
    return accepted_by(card_from_json(mirror.remote.card), mirror.task.skill_slug)


def parts_of_task(task: Task, accepts: Accepts) -> list[Part]:
    """The task's input as the agent can read it, and the files that came with it."""
    first = task.messages.filter(role=Role.USER).order_by("pk").first()
    parts: list[Part] = first.parts if first else []
    files = [part for part in parts if "url" in part or "raw" in part]
    texts = [part for part in parts if "text" in part]
    if not any("data" in part for part in parts):
        if accepts.requests:
            return [_request(task, accepts), *files]  # the texts are the input
        if parts:
            return parts
    if accepts.requests:
        return [_request(task, accepts), *texts, *files]
    return [*_input_parts(task, texts, accepts), *files]


def _request(task: Task, accepts: Accepts) -> Part:
    return {"data": {"skill": accepts.skill_id, "input": task.input}}


def _input_parts(task: Task, texts: list[Part], accepts: Accepts) -> list[Part]:
    """The input, in place of or beside the client's own texts."""
    text = _sole_text(task.input)
    if text is not None and accepts.text:
        return texts if {"text": text} in texts else [{"text": text}, *texts]
    data = [_request(task, accepts)] if accepts.json else []
    # The input as text is for agents that cannot read the data part.
    prompt = texts if texts and data else [*texts, *_as_texts(task.input, accepts)]
    return [*prompt, *data]


def parts_of_answer(value: Any, accepts: Accepts) -> list[Part]:
    is_text = _sole_text(value) is not None
    data = [{"data": value}] if accepts.json and not is_text else []
    return [*_as_texts(value, accepts), *data]


def _as_texts(value: Any, accepts: Accepts) -> list[Part]:
    """The value as a text part: itself if it is a text, else its JSON if the agent takes text."""
    text = _sole_text(value)
    if text is not None:
        return [{"text": text}]
    if not accepts.text:
        return []
    return [{"text": json.dumps(value, ensure_ascii=False)}]


def _sole_text(value: Any) -> str | None:
    """The text of ``"hello"`` and of ``{"text": "hello"}``."""
    if isinstance(value, dict) and len(value) == 1:
        (value,) = value.values()
    return value if isinstance(value, str) else None
