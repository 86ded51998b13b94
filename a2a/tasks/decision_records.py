"""Decision records of tasks: what was asked of an agent, what it asked, who answered what."""

from __future__ import annotations

from a2a.models import Question, Task
from a2a.tasks import sealed_texts
from ledger.audit import decision_records
from ledger.audit.decision_records import Record


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
                    "asked": sealed_texts.asked(question.text, question.form, question.evidence),
                    "answer": sealed_texts.text_of(question.answer),
                }
                for question in Question.objects.filter(task=task).order_by("pk")
            ],
        )
