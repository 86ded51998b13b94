"""Decision records of tasks: what was asked of an agent, what it asked, who answered what."""

from __future__ import annotations

from a2a.models import Question, Task
from a2a.tasks import sealed_texts
from ledger.audit import decision_records
from ledger.audit.decision_records import Record


def _contents_of(question: Question, *, is_erased: bool) -> Record:
    """The question and its answer as they are sealed; nothing once they were erased."""
    if is_erased:
        return {"asked": None, "answer": None}
    return {
        "asked": sealed_texts.asked(question.text, question.form, question.evidence),
        "answer": sealed_texts.text_of(question.answer),
    }


def of_task(task: Task) -> Record:
    with decision_records.one_instant():
        task = Task.objects.get(pk=task.pk)
        return decision_records.record_of(
            "task",
            task.pk,
            task={
                "tenant": task.tenant,
                "skill": task.skill_slug,
                "input": sealed_texts.text_of(task.input),
                "result": sealed_texts.text_of(task.result),
            },
            questions=[
                {
                    "id": str(question.pk),
                    **_contents_of(question, is_erased=task.content_erased_at is not None),
                }
                for question in Question.objects.filter(task=task).order_by("pk")
            ],
        )
