"""Digests, sealed content and decision records of tasks."""

from a2a.tasks.records.decision_records import of_task
from a2a.tasks.records.digests import digest_of, question_text, text_of
from a2a.tasks.records.sealed_content import (
    content_digests,
    question_digests,
    retain_until,
    transaction_of,
)

__all__ = [
    "content_digests",
    "digest_of",
    "of_task",
    "question_digests",
    "question_text",
    "retain_until",
    "text_of",
    "transaction_of",
]
