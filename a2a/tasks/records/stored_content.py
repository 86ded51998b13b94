"""The content of tasks and their questions as the tables have it, for the verifiers."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from uuid import UUID

from a2a.models import Question, Task
from a2a.tasks.records import digests
from ledger.proof.audit import Part, stream

_QUESTION = ("task_id", "id", "text", "form", "evidence", "answer", "answered_by")


def contents(part: Part) -> Iterator[tuple[UUID, dict[str, str]]]:
    """The digests, by name as in ``sealed_content.contents``, in the order of the tasks' ids."""
    tasks = Task.objects.filter(part.of("pk")).order_by("pk")
    asked = Question.objects.filter(part.of("task_id")).order_by("task_id", "pk")
    questions = groupby(stream(asked, _QUESTION), key=itemgetter(0))
    task_id, rows = next(questions, (None, iter(())))
    for pk, value, result in stream(tasks, ["pk", "input", "result"]):
        content = {"input": _digest(value), "result": _digest(result)}
        if task_id == pk:
            for row in rows:
                content |= _of_question(*row[1:])
            task_id, rows = next(questions, (None, iter(())))
        yield pk, content


def _of_question(
    pk: UUID, text: str, form: object, evidence: object, answer: object, answered_by: str
) -> dict[str, str]:
    asked = digests.digest_of(digests.question_text(text, form, evidence))
    content = {f"question {pk}": asked, f"answer to {pk}": _digest(answer)}
    return content | ({f"answerer of {pk}": answered_by} if answered_by else {})


def _digest(value: object) -> str:
    return digests.digest_of(digests.text_of(value))
