"""Skills of an operator's tenants, one page each: what others may have done here, on which terms.

One is switched off rather than deleted, because its tasks refer to it.
"""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db.models import QuerySet
from django.db.transaction import atomic
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from a2a.models import Skill
from a2a.submissions import record_skill
from approvals.web.settings.connections.skill_forms import SkillForm, is_of_card
from approvals.web.settings.operators import TRIES, kept_tenants, origin_of
from approvals.web.settings.saving import edits_of_new, set_changed
from ledger.events import ChangeKind
from ledger.models import Agent


@login_required
@require_http_methods(["GET", "POST"])
def new_skill(request: HttpRequest) -> HttpResponse:
    form = SkillForm(request.POST or None, agents=_agents(request), initial=_chosen(request))
    if request.method == "POST" and form.is_valid():
        with atomic():
            row = form.save()
            record_skill(row, ChangeKind.SKILL_ADDED, edits_of_new(form), **origin_of(request))
        messages.success(request, _("Added. Other agents may ask for it from now on."))
        return redirect("desk:connection-skill", row.pk)
    return _page(request, form, None)


@login_required
@require_http_methods(["GET", "POST"])
def skill(request: HttpRequest, skill_id: int) -> HttpResponse:
    """One skill; what is posted is saved."""
    row = get_object_or_404(kept_skills(request), pk=skill_id)
    form = SkillForm(request.POST or None, instance=row)
    if request.method == "POST" and form.is_valid():
        with atomic():
            kept = kept_skills(request).select_for_update(of=("self",)).get(pk=row.pk)
            if edits := set_changed(kept, form):
                record_skill(kept, ChangeKind.SKILL_CHANGED, edits, **origin_of(request))
        messages.success(request, _("Saved."))
        return redirect("desk:connection-skill", row.pk)
    return _page(request, form, get_object_or_404(kept_skills(request), pk=skill_id))


def kept_skills(request: HttpRequest) -> QuerySet[Skill]:
    """Of the tenants that the person keeps."""
    rows = Skill.objects.filter(agent__tenant__in=kept_tenants(request))
    return rows.select_related("agent__tenant", "agent__remote")


def _agents(request: HttpRequest) -> QuerySet[Agent]:
    """Those with workers of ours: the skills of a remote agent are of its card."""
    rows = Agent.objects.filter(tenant__in=kept_tenants(request), remote__isnull=True)
    return rows.exclude(slug__startswith=TRIES).order_by("tenant", "name")


def _chosen(request: HttpRequest) -> dict[str, Any]:
    """The agent from whose page the person came."""
    agent = request.GET.get("agent", "")
    return {"agent": agent} if agent.isdecimal() else {}


def _page(request: HttpRequest, form: SkillForm, row: Skill | None) -> HttpResponse:
    context = {"form": form, "row": row, "is_of_card": row is not None and is_of_card(row)}
    status = 422 if form.errors else 200
    return render(request, "settings/skill.html", context, status=status)
