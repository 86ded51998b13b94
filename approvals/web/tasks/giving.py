"""The pages on which people give agents work, and ask for revisions of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast
from uuid import UUID, uuid4

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.core.files.uploadedfile import UploadedFile
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _, gettext_noop, ngettext
from django.views.decorators.http import require_http_methods, require_safe

from a2a.models import Skill, Task
from a2a.models.answerers import APPROVER, CLIENT, OPERATOR
from a2a.states import TaskState
from approvals.desk import (
    LARGEST_FILES,
    MOST_FILES,
    Work,
    give_work,
    lent_to,
    may_revise,
    policies,
    skill_for,
    skills_for,
    takes_files,
    task_made_of,
)
from approvals.presentation import kept_in_words, refusal_in_words
from approvals.presentation.forms import Node, form_of, read_form, show_defaults, show_value
from approvals.web.forms import SPANS, GiveForm
from approvals.web.requests import roles_of_request, tenants_of_request, wants_fragment
from ledger.errors import IdempotencyKeyReused, LedgerError, NotAllowed, NotFound
from ledger.principals import Surface

# Bytes of an input that fit into a form, beside the other fields, the names and the change.
LARGEST_INPUT = settings.DATA_UPLOAD_MAX_MEMORY_SIZE - 64 * 1024
MOST_FIELDS = settings.DATA_UPLOAD_MAX_NUMBER_FIELDS - 20
TOO_LARGE = gettext_noop(
    "The input of this task is too large for a form, which holds {most} KiB. "
    "An agent can ask for the revision over A2A, which takes larger inputs."
)


@dataclass(slots=True)
class Page:
    """The subject of one of the two forms, and what it shows."""

    skill: Skill
    node: Node
    revised: Task | None = None
    form: GiveForm | None = None
    problem: str = ""
    made: Task | None = None  # what the same form, or this click, made
    files: int = 0  # chosen, and lost because the page was sent


@login_required
@require_safe
def choose(request: HttpRequest) -> HttpResponse:
    """The skills to which the person may give work."""
    user, roles = cast(User, request.user), roles_of_request(request)
    tenants = sorted(tenants_of_request(request))
    refusals = [may.why_not for name in tenants if not (may := policies.may_give(name, roles))]
    is_refused = len(refusals) == len(tenants)
    context = {
        "skills": skills_for(user),
        "has_tenants": len(tenants) > 1,
        "refusals": refusals if is_refused else [],
    }
    return render(request, "desk/give_choose.html", context, status=403 if is_refused else 200)


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def give(request: HttpRequest, skill_id: int) -> HttpResponse:
    """The form of a skill; sent, it makes a task."""
    try:
        skill = skill_for(cast(User, request.user), skill_id)
    except NotFound:
        raise Http404 from None
    except NotAllowed as refusal:
        return _refused(request, refusal_in_words(refusal), reverse("desk:tasks"))
    page = Page(skill, form_of(skill.input_schema))
    if request.method == "POST":
        return _given(request, page)
    show_defaults(page.node)
    return _page(request, page)


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def revise(request: HttpRequest, task_id: UUID) -> HttpResponse:
    """The form of the task's skill with the task's input; sent, it makes a revision."""
    visible = Task.objects.for_tenants(tenants_of_request(request))
    row = visible.select_related("skill__agent__remote").filter(pk=task_id).first()
    if row is None:
        raise Http404
    may = may_revise(row, roles_of_request(request))
    if not may or row.skill is None:
        is_role = not policies.may_give(row.tenant, roles_of_request(request))
        back = reverse("desk:task", args=[task_id])
        return _refused(request, may.why_not, back, status=403 if is_role else 409)
    page = Page(row.skill, form_of(row.skill.input_schema), revised=row)
    if request.method == "POST":
        return _given(request, page)
    show_value(page.node, row.input)
    if _is_too_large(page.node):
        back = reverse("desk:task", args=[task_id])
        why_not = _(TOO_LARGE).format(most=LARGEST_INPUT // 1024)
        return _refused(request, why_not, back, status=409)
    return _page(request, page)


def _is_too_large(node: Node) -> bool:
    """True if the form, sent as it is shown, would be refused for its size."""
    texts = [text for each in node.every() for text in (each.text, *each.chosen)]
    # Browsers send a line end as two characters.
    size = sum(len(text.encode()) + text.count("\n") for text in texts)
    return size > LARGEST_INPUT or len(texts) > MOST_FIELDS


def _given(request: HttpRequest, page: Page) -> HttpResponse:
    """Give the work, and lead to its task; what cannot be given is shown with the reasons."""
    user = cast(User, request.user)
    try:
        work = _work_of(request, page)
        if work is None:
            return _page(request, page, 422)
        submitted = give_work(user, page.skill, work, via=Surface.WEB)
    except IdempotencyKeyReused:
        page.problem = _("This form was sent before, with other content. Nothing was changed.")
        page.made = task_made_of(user, work) if work is not None else None
        return _page(request, page, 409)
    except LedgerError as refusal:
        page.problem = refusal_in_words(refusal)
        return _page(request, page, refusal.status)
    task = submitted.task
    if task.state == TaskState.REJECTED:
        page.problem = _("It was not taken: {reason}").format(reason=kept_in_words(task, "reason"))
        page.made = task
        return _page(request, page, 422)
    address = reverse("desk:task", args=[task.pk])
    if wants_fragment(request):
        return HttpResponse(status=204, headers={"HX-Redirect": address})
    return redirect(address)


def _work_of(request: HttpRequest, page: Page) -> Work | None:
    """The work as sent, ``None`` with the errors on the page. Raises what the parts raise."""
    is_revision = page.revised is not None
    form = page.form = GiveForm(page.skill, is_revision=is_revision, data=request.POST)
    files = _files_of(request, page)
    value = read_form(page.node, request.POST, page.skill.input_schema)
    if not form.is_valid() or page.node.is_faulty:
        return None
    lasts = form.cleaned_data["lasts"]
    return Work(
        key=form.cleaned_data["key"],
        input=value,
        change=form.cleaned_data["change"],
        files=files,
        lasts=timedelta(seconds=lasts) if lasts else None,
        may_answer=form.cleaned_data["may_answer"],
        revises=page.revised.pk if page.revised else None,
    )


def _files_of(request: HttpRequest, page: Page) -> list[UploadedFile[Any]]:
    """A file field that was left empty sends nothing, or an empty file without a name."""
    if not takes_files(page.skill):
        return []
    files = cast("list[UploadedFile[Any]]", request.FILES.getlist("files"))
    page.files = len(files)
    return files


def _refused(request: HttpRequest, why_not: str, back: str, status: int = 403) -> HttpResponse:
    context = {"why_not": why_not, "back": back}
    return render(request, "desk/give_refused.html", context, status=status)


def _page(request: HttpRequest, page: Page, status: int = 200) -> HttpResponse:
    skill, sent = page.skill, request.POST
    template = "desk/_give.html" if wants_fragment(request) else "desk/give.html"
    context = {
        "page": page,
        "skill": skill,
        "node": page.node.numbered(),
        "faulty": [node for node in page.node.every() if node.errors and node.label],
        # The key stays while nothing was made, so that a lost answer does not give it twice.
        "key": uuid4() if page.made or "key" not in sent else sent["key"],
        "change": sent.get("change", ""),
        "spans": [(span, in_words(span)) for span in SPANS if span < skill.timeout.total_seconds()],
        "limit": in_words(skill.timeout.total_seconds()),
        "lasts": sent.get("lasts", ""),
        "answerers": _answerers(request, skill, page.revised),
        "has_tenants": len(tenants_of_request(request)) > 1,
        "lent": lent_to(skill),
        "takes_files": takes_files(skill),
        "most_files": MOST_FILES,
        "largest_files": LARGEST_FILES // 1000,
    }
    return render(request, template, context, status=status)


def _answerers(
    request: HttpRequest, skill: Skill, revised: Task | None
) -> list[tuple[str, str, bool]]:
    """Value, label, and whether it is chosen: those of the earlier task at first."""
    labels = {
        CLIENT: _("Me"),
        APPROVER: _("Managers of {tenant}").format(tenant=skill.tenant),
        OPERATOR: _("Operators of {tenant}").format(tenant=skill.tenant),
    }
    chosen = (revised.may_answer if revised else None) or [APPROVER, CLIENT]
    if request.method == "POST":
        chosen = request.POST.getlist("may_answer")
    return [(name, label, name in chosen) for name, label in labels.items()]


def in_words(seconds: float) -> str:
    """``14400`` as ``4 hours``."""
    if seconds >= 86_400 and seconds % 86_400 == 0:
        days = round(seconds / 86_400)
        return ngettext("{number} day", "{number} days", days).format(number=days)
    if seconds >= 3600 and seconds % 3600 == 0:
        hours = round(seconds / 3600)
        return ngettext("{number} hour", "{number} hours", hours).format(number=hours)
    if seconds >= 60 and seconds % 60 == 0:
        minutes = round(seconds / 60)
        return ngettext("{number} minute", "{number} minutes", minutes).format(number=minutes)
    return _("{number} seconds").format(number=f"{seconds:g}")
