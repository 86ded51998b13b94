"""What this floor adds to each round of the sweeper."""

from __future__ import annotations

from a2a import tasks
from a2a.builtin import work
from a2a.models import ASSENT, Question, Task
from a2a.tasks import questions, retention

BATCH = 500


def sweep() -> None:
    """Deadlines of questions, silent workers, tasks past their time."""
    for question_id in Question.objects.due().values_list("pk", flat=True)[:BATCH]:
        questions.lapse(question_id)
    for task_id in Task.objects.abandoned().values_list("pk", flat=True)[:BATCH]:
        tasks.put_back_or_fail(task_id)
    overtime = Task.objects.overtime().exclude(owner=str(ASSENT))
    for task_id in overtime.values_list("pk", flat=True)[:BATCH]:
        tasks.time_out(task_id)
    work.settle_all()
    retention.erase_due()
