"""Agents elsewhere that do tasks for us: one page each, and the way to register another.

Its card is read and shown first; what is registered or accepted is what was shown.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db.models import QuerySet
from django.db.transaction import atomic
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from a2a import remote
from a2a.models import RemoteAgent, Skill
from a2a.remote import CardRefused, ReadCard
from approvals.presentation import refusal_and_hint
from approvals.web.record.pending import Difference, shown_value
from approvals.web.settings.connections.remote_forms import (
    AddressForm,
    TermsForm,
    kept_wanted,
)
from approvals.web.settings.operators import kept_tenants, origin_of
from approvals.web.settings.saving import set_changed
from approvals.web.sign_in.authentication import person_of
from ledger.agents import enrolment
from ledger.errors import LedgerError
from ledger.foundation.characters import cleaned
from ledger.models import Agent
from ledger.tools import watched


@sensitive_post_parameters("token")
@login_required
@require_http_methods(["GET", "POST"])
def new_remote_agent(request: HttpRequest) -> HttpResponse:
    """The address; then what its card says; then, if that was confirmed as shown, register it."""
    if "wanted" in request.POST:
        return _register(request)
    form = AddressForm(request.POST or None, tenants=kept_tenants(request))
    card: ReadCard | None = None
    if request.method == "POST" and form.is_valid():
        try:
            card = form.read_card()
        except CardRefused as refusal:
            form.add_error("url", refusal.detail)
    return _new_page(request, form, card)


def _new_page(request: HttpRequest, form: AddressForm, card: ReadCard | None) -> HttpResponse:
    context: dict[str, Any] = {"form": form}
    if card is not None:
        replaced = form.takes_place_of()
        wanted = form.wanted(card, replaced)
        context |= {
            "card": card,
            "name": cleaned(card.parsed.name),
            "whole": _shown(card.content),
            "replaces": replaced,
            "skills": _offered(card),
            "wanted": wanted,
            "kept": wanted.kept_for(person_of(request).pk),
        }
    status = 422 if form.errors else 200
    return render(request, "settings/remote_agent_new.html", context, status=status)


def _offered(card: ReadCard) -> list[Any]:
    """The skills as the card has them, without characters that hide text."""
    offered = remote.skills_of(card.parsed).items()
    return [
        (slug, {name: _shown(value) for name, value in asdict(skill).items()})
        for slug, skill in offered
    ]


def _register(request: HttpRequest) -> HttpResponse:
    """The agent as it was shown to this person, and no other."""
    wanted = kept_wanted(request.POST["wanted"], person_of(request).pk)
    tenants = kept_tenants(request).filter(slug=wanted.tenant if wanted else "")
    tenant = tenants.first()
    if wanted is None or tenant is None:
        messages.error(request, _("Nothing was registered: begin again."))
        return redirect("desk:connection-remote-agent-new")
    origin = origin_of(request)
    try:
        row = remote.register(
            tenant,
            slug=wanted.slug,
            url=wanted.url,
            token=wanted.token,
            required=wanted.required,
            seen=wanted.sha256,
            in_place_of=wanted.in_place_of,
            sealed_by=(origin["by"], origin["via"]),
            wants_push=wanted.wants_push,
        )
    except CardRefused as refusal:
        messages.error(request, refusal_and_hint(refusal))
        return redirect("desk:connection-remote-agent-new")
    if row.agent.is_active:
        messages.success(request, _("Registered. Its skills take tasks from now on."))
    else:
        messages.warning(request, _("Registered. It is switched off, and is given nothing."))
    return redirect("desk:connection-remote-agent", row.pk)


# --- one of them ----------------------------------------------------------------------------------


@login_required
@require_http_methods(["GET", "POST"])
def remote_agent(request: HttpRequest, remote_id: int) -> HttpResponse:
    """Its state, its skills, and what differs in its card; what is posted is saved."""
    row = get_object_or_404(kept_remote_agents(request), pk=remote_id)
    form = TermsForm(request.POST or None, instance=row)
    if request.method == "POST" and form.is_valid():
        with atomic():
            kept = kept_remote_agents(request).select_for_update(of=("self",)).get(pk=row.pk)
            if edits := set_changed(kept, form):
                remote.was_changed(kept, edits, **origin_of(request))
        messages.success(request, _("Saved."))
        return redirect("desk:connection-remote-agent", row.pk)
    row = get_object_or_404(kept_remote_agents(request), pk=remote_id)
    card = row.watched
    context = {
        "row": row,
        "form": form,
        "card": card,
        "pinned": _shown(card.pinned),
        "seen": remote.fingerprint(card.seen or {}),
        "differences": _differences(card.pinned or {}, card.seen or {}),
        "skills": Skill.objects.filter(agent=row.agent_id).order_by("-is_active", "name"),
    }
    status = 422 if form.errors else 200
    return render(request, "settings/remote_agent.html", context, status=status)


def _differences(pinned: dict[str, Any], seen: dict[str, Any]) -> list[Difference]:
    names = [name for name in {**pinned, **seen} if name != "signatures"]
    return [
        Difference(cleaned(name), _shown(pinned.get(name)), _shown(seen.get(name)))
        for name in names
        if pinned.get(name) != seen.get(name)
    ]


def _shown(value: Any) -> str:
    """Text of a stranger, without characters that hide text or reverse its direction."""
    return cleaned(shown_value(value))


@login_required
@require_POST
def read_again(request: HttpRequest, remote_id: int) -> HttpResponse:
    """Read its card now, and say how it compares."""
    row = get_object_or_404(kept_remote_agents(request), pk=remote_id)
    if problem := watched.read_now(row.watched_id):
        messages.error(request, problem)
    else:
        row.watched.refresh_from_db()
        as_accepted = _("Its card says what it said when it was accepted.")
        differs = _("Its card has changed: look at what differs.")
        messages.success(request, differs if row.watched.held_why else as_accepted)
    return redirect("desk:connection-remote-agent", row.pk)


@login_required
@require_POST
def accept(request: HttpRequest, remote_id: int) -> HttpResponse:
    """Accept the card that was shown."""
    row = get_object_or_404(kept_remote_agents(request), pk=remote_id)
    seen = request.POST.get("seen") or "nothing"
    try:
        remote.pin(row, seen=seen, **origin_of(request))
    except CardRefused as refusal:
        watched.read_now(row.watched_id)
        messages.error(request, refusal_and_hint(refusal))
    else:
        messages.success(request, _("Accepted. Its skills take tasks from now on."))
    return redirect("desk:connection-remote-agent", row.pk)


@login_required
@require_POST
def send_sample(request: HttpRequest, remote_id: int) -> HttpResponse:
    row = get_object_or_404(kept_remote_agents(request), pk=remote_id)
    try:
        task = remote.send_sample(row, **origin_of(request))
    except LedgerError as refusal:
        messages.error(request, refusal_and_hint(refusal))
    else:
        if task is not None:
            return redirect("desk:task", task.pk)
        messages.error(request, _("It has no sample task: write one below."))
    return redirect("desk:connection-remote-agent", row.pk)


@login_required
@require_POST
def switch(request: HttpRequest, remote_id: int) -> HttpResponse:
    """Off: it is given nothing new, and stays in the record. On again."""
    row = get_object_or_404(kept_remote_agents(request), pk=remote_id)
    with atomic():
        agent = Agent.objects.select_for_update().get(pk=row.agent_id)
        wanted = request.POST.get("active") == "1"
        if agent.is_active != wanted:
            agent.is_active = wanted
            agent.save(update_fields=["is_active"])
            edits = {"is_active": [not wanted, wanted]}
            enrolment.was_changed(agent, edits, **origin_of(request))
    messages.success(request, _("Switched on.") if wanted else _("Switched off."))
    return redirect("desk:connection-remote-agent", row.pk)


def kept_remote_agents(request: HttpRequest) -> QuerySet[RemoteAgent]:
    """Of the tenants that the person keeps, and without what is secret."""
    rows = RemoteAgent.objects.filter(agent__tenant__in=kept_tenants(request))
    return rows.select_related("agent__tenant", "watched", "probe")
