"""The tables of tasks and questions. Read them anywhere; write them through the verbs."""

from __future__ import annotations

from a2a.models.push import PUSH, PushConfig
from a2a.models.questions import Question, QuestionQuerySet, QuestionState
from a2a.models.remote import Mirror, RemoteAgent
from a2a.models.skills import LEASE, QUESTION_TTL, TASK_TTL, Skill
from a2a.models.tasks import (
    ASSENT,
    DUE,
    Artifact,
    Message,
    Role,
    Task,
    TaskQuerySet,
    visible_if_any,
)

__all__ = [
    "ASSENT",
    "DUE",
    "LEASE",
    "PUSH",
    "QUESTION_TTL",
    "TASK_TTL",
    "Artifact",
    "Message",
    "Mirror",
    "PushConfig",
    "Question",
    "QuestionQuerySet",
    "QuestionState",
    "RemoteAgent",
    "Role",
    "Skill",
    "Task",
    "TaskQuerySet",
    "visible_if_any",
]
