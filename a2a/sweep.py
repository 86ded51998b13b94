"""The task hub's step in each round of the sweeper."""

from __future__ import annotations

from a2a import builtin, tasks
from a2a.models import ASSENT, Question, Task
from a2a.tasks import questions, retention
from ledger.workers import go_on

BATCH = 500


def sweep() -> None:
    """Lapse unanswered questions, take tasks from silent workers, time out the rest."""
    for question_id in Question.objects.due().values_list("pk", flat=True)[:BATCH]:
        go_on()
        questions.lapse(question_id)
    for task_id in Task.objects.abandoned().values_list("pk", flat=True)[:BATCH]:
        go_on()
        tasks.put_back_or_fail(task_id)
    overtime = Task.objects.overtime().exclude(owner=str(ASSENT))
    for task_id in overtime.values_list("pk", flat=True)[:BATCH]:
        go_on()
        tasks.time_out(task_id)
    go_on()
    builtin.settle_all()
    retention.erase_due()
