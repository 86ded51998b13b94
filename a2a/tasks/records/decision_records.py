"""Decision records of tasks: input, questions, answers and result, verifiable offline."""

from __future__ import annotations

from uuid import UUID

from a2a.models import Question, Task
from a2a.tasks.records import digests
from ledger.proof.audit import decision_records
from ledger.proof.audit.decision_records import Record


def _contents_of(question: Question, *, is_erased: bool) -> Record:
    """The sealed texts of a question and its answer; ``None`` once they were erased."""
    if is_erased:
        return {"asked": None, "answer": None}
    return {
        "asked": digests.question_text(question.text, question.form, question.evidence),
        "answer": digests.text_of(question.answer),
    }


def of_task(task: Task) -> Record:
    """The record of the task as it is stored now, read in one snapshot."""
    with decision_records.one_instant():
        task = Task.objects.get(pk=task.pk)
        return decision_records.record_of(
            "task",
            task.pk,
            task={
                "tenant": task.tenant,
                "skill": task.skill_slug,
                "input": digests.text_of(task.input),
                "result": digests.text_of(task.result),
            },
            questions=[
                {
                    "id": str(question.pk),
                    **_contents_of(question, is_erased=task.content_erased_at is not None),
                }
                for question in Question.objects.filter(task=task).order_by("pk")
            ],
        )


def of_answered(subject: UUID) -> Record:
    """The record of the task of this id, for an archive."""
    return of_task(Task.objects.get(pk=subject))
