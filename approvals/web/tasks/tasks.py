"""Questions and tasks at the desk: read the request, call one verb, render the answer."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from a2a import validation
from a2a.errors import AnswerInvalid
from a2a.models import Message, Question, Task, TaskQuerySet
from a2a.states import TaskEventKind, TaskState
from a2a.tasks import MOST_READ, Relative, family_of
from approvals.desk import decisions, may_revise, policies
from approvals.people import principal_of
from approvals.presentation import in_words, labels, refusal_in_words
from approvals.presentation.forms import (
    Node,
    answer_form,
    place_misfits,
    show_defaults,
    taken_from,
)
from approvals.web.forms import CancelTaskForm, TaskListForm
from approvals.web.listing import list_context
from approvals.web.requests import roles_of_request, tenants_of_request, wants_fragment
from ledger.errors import LedgerError, NotFound
from ledger.foundation.postgres import keyset_page
from ledger.models import Event
from ledger.principals import Surface

PAGE = 50
MOST_OF_TREE = 12
MOST_ASKED = 40  # values
MOST_BEFORE = 100  # tasks that are counted
LINES_MOST = 10  # of the input that are shown without asking


@login_required
@require_safe
def question(request: HttpRequest, question_id: UUID) -> HttpResponse:
    return _question_page(request, _question(request, question_id))


@login_required
@require_POST
def answer(request: HttpRequest, question_id: UUID) -> HttpResponse:
    """Record the answer and respond with the question as it is afterwards."""
    row = _question(request, question_id)
    form = answer_form(row.form)
    value = taken_from(form, request.POST)
    if form.is_faulty:
        return _question_page(request, row, status=422, form=form)
    try:
        decisions.answer(request.user, question_id, value, via=Surface.WEB)  # type: ignore[arg-type]
    except NotFound:
        raise Http404 from None
    except AnswerInvalid as refusal:
        place_misfits(form, refusal.extra["errors"])
        return _question_page(request, row, status=refusal.status, form=form)
    except LedgerError as refusal:
        row = _question(request, question_id)
        return _question_page(
            request, row, status=refusal.status, problem=refusal_in_words(refusal)
        )
    if not wants_fragment(request):
        return redirect("desk:question", question_id)
    return _question_page(request, _question(request, question_id))


def _question(request: HttpRequest, question_id: UUID) -> Question:
    """The question; ``Http404`` for one of another tenant."""
    visible = Question.objects.for_tenants(tenants_of_request(request))
    return get_object_or_404(visible.select_related("task__skill"), pk=question_id)


def _question_page(
    request: HttpRequest,
    row: Question,
    status: int = 200,
    problem: str = "",
    form: Node | None = None,
) -> HttpResponse:
    if form is not None:
        problem = in_words(AnswerInvalid.title)
    context = question_context(request, row, form) | {"problem": problem}
    if wants_fragment(request):
        return render(request, "desk/_question.html", context, status=status)
    return render(request, "desk/question.html", list_context(request) | context, status=status)


def question_context(
    request: HttpRequest, row: Question, form: Node | None = None
) -> dict[str, Any]:
    """``form`` is as it was filled in; else a new one is shown."""
    if form is None:
        form = answer_form(row.form)
        show_defaults(form)
    principal = str(principal_of(request.user))  # type: ignore[arg-type]
    roles = roles_of_request(request)
    return {
        "question": row,
        "task": row.task,
        "may_answer": policies.may_answer(row, principal, roles, timezone.now()),
        "who_may": policies.who_may_answer(row),
        "fields": form.numbered().fields,
        "faults": form.errors if form.kind == "group" else [],
        "events": _condensed(row.task.events[:500]),
    }


@login_required
@require_safe
def tasks(request: HttpRequest) -> HttpResponse:
    form = TaskListForm(request.GET)
    rows = _listed(request, form)
    before = form.cleaned_data.get("before")
    page = keyset_page(rows, PAGE, before=(before,) if before else None)
    query = request.GET.copy()
    query.pop("before", None)
    roles = roles_of_request(request)
    context = {
        "rows": page.rows,
        "form": form,
        "query": query.urlencode(),
        "next": page.cursor,
        "is_filtered": any(request.GET.values()),
        "may_give": any(policies.may_give(tenant, roles) for tenant in roles),
    }
    return render(request, "desk/tasks.html", context)


def _listed(request: HttpRequest, form: TaskListForm) -> TaskQuerySet:
    form.is_valid()
    values = form.cleaned_data
    rows = Task.objects.for_tenants(tenants_of_request(request))
    if values.get("state"):
        rows = rows.filter(state=values["state"])
    if values.get("skill"):
        rows = rows.filter(skill_slug=values["skill"])
    if values.get("trace"):
        rows = rows.filter(trace_id=validation.w3c_trace_id(values["trace"]))
    return rows


@login_required
@require_safe
def task(request: HttpRequest, task_id: UUID) -> HttpResponse:
    return _task_page(request, task_id)


@login_required
@require_POST
def cancel(request: HttpRequest, task_id: UUID) -> HttpResponse:
    form = CancelTaskForm(request.POST)
    if not form.is_valid():
        message = str(next(iter(form.errors.values()))[0])
        return _task_page(request, task_id, status=422, problem=message)
    try:
        reason = form.cleaned_data["reason"]
        decisions.cancel_task(request.user, task_id, via=Surface.WEB, reason=reason)  # type: ignore[arg-type]
    except NotFound:
        raise Http404 from None
    except LedgerError as refusal:
        return _task_page(
            request, task_id, status=refusal.status, problem=refusal_in_words(refusal)
        )
    if not wants_fragment(request):
        return redirect("desk:task", task_id)
    return _task_page(request, task_id)


def _task_page(
    request: HttpRequest, task_id: UUID, status: int = 200, problem: str = ""
) -> HttpResponse:
    visible = Task.objects.for_tenants(tenants_of_request(request))
    row = get_object_or_404(visible.select_related("parent", "skill__agent"), pk=task_id)
    template = "desk/_task.html" if wants_fragment(request) else "desk/task.html"
    roles = roles_of_request(request)
    asked = _asked(row)
    context = {
        "task": row,
        "problem": problem,
        # A partner's error repeats the reason, which is its message.
        "faults": [error for error in row.errors if error.get("message") != row.reason],
        "messages_said": _messages(row),
        "asked": asked[:MOST_ASKED],
        "asked_in_short": _in_short(row.input) if _is_long(asked) else "",
        "asked_more": max(0, len(asked) - MOST_ASKED),
        "artifacts": list(row.artifacts.order_by("pk")),
        "questions": list(row.questions.order_by("pk")),
        "events": _condensed(row.events[:500]),
        "tree": _tree(request, row),
        "may_cancel": policies.may_cancel(row, roles),
        "may_revise": may_revise(row, roles),
        "is_open": row.state in set(TaskState) and not row.is_final,
        "number_before": _number_before(row),
    }
    return render(request, template, context, status=status)


def _number_before(row: Task) -> int:
    """The number of tasks that its agent is given first, ``MOST_BEFORE`` at most."""
    if row.state != TaskState.SUBMITTED:
        return 0
    return Task.objects.before(row)[:MOST_BEFORE].count()


def _asked(row: Task) -> list[tuple[str, str]]:
    """Each value of the input as people read it, with its name; what the skill requires first."""
    value = row.input
    if value is None:
        return []
    required = row.skill.input_schema.get("required") if row.skill is not None else None
    if isinstance(value, dict) and isinstance(required, list):
        first = [name for name in required if isinstance(name, str) and name in value]
        value = {name: value[name] for name in dict.fromkeys([*first, *value])}
    return [(name, labels.read(each)) for name, each in labels.leaves(value)]


def _is_long(asked: list[tuple[str, str]]) -> bool:
    return sum(1 + value.count("\n") + len(value) // 100 for _, value in asked) > LINES_MOST


def _in_short(value: Any) -> str:
    """``47 transcripts, 9 kB``: what a long input has, for who does not need all of it."""
    lists = value.items() if isinstance(value, dict) else ()
    parts = [f"{len(items)} {name}" for name, items in lists if isinstance(items, list)]
    size = max(1, round(len(json.dumps(value, ensure_ascii=False).encode()) / 1000))
    return ", ".join([*parts[:3], f"{size} kB"])


def _messages(row: Task) -> list[Message]:
    """The messages; a part that only repeats the skill and the input is left out."""
    request = {"skill": row.skill_slug, "input": row.input}
    messages = list(row.messages.order_by("pk")[:200])
    for message in messages[:1]:
        message.parts = [part for part in message.parts if part.get("data") != request]
    return [message for message in messages if message.parts]


def _condensed(events: Iterable[Event]) -> list[Event]:
    """Of progress reports in a row only the last: people read what changed, not every step."""
    kept: list[Event] = []
    for event in events:
        if kept and kept[-1].kind == event.kind == TaskEventKind.PROGRESSED:
            kept.pop()
        kept.append(event)
    return kept


@dataclass(frozen=True, slots=True)
class Tree:
    """The tree of a task's revisions and delegations."""

    rows: list[Relative]
    hidden: int  # after the last row

    @property
    def is_alone(self) -> bool:
        return len(self.rows) == 1 and not self.hidden

    @property
    def others(self) -> str:
        """The ids of the other tasks, whose news change this page."""
        return " ".join(str(row.task.pk) for row in self.rows if not row.is_this)


def _tree(request: HttpRequest, row: Task) -> Tree:
    most = MOST_READ if request.GET.get("tree") == "all" else MOST_OF_TREE
    return Tree(*family_of(row, tenants_of_request(request), most))
