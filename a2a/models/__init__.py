"""The tables of tasks and questions. Read them anywhere; write them through the verbs."""

from __future__ import annotations

from a2a.models.push import PUSH, PushConfig
from a2a.models.tasks import (
    ASSENT,
    LEASE,
    QUESTION_TTL,
    TASK_TTL,
    Artifact,
    Message,
    Mirror,
    Question,
    QuestionQuerySet,
    QuestionState,
    RemoteAgent,
    Role,
    Skill,
    Task,
    TaskQuerySet,
)

__all__ = [
    "ASSENT",
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
]
