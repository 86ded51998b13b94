"""The agents of an operator's tenants: one page each, with what it may ask for and its tokens."""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.db.models import Count, F, Max, Q, QuerySet
from django.db.transaction import atomic
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from approvals.web.settings import first_calls
from approvals.web.settings.agent_forms import AgentForm, NewAgentForm, TokenForm, scope_in_words
from approvals.web.settings.limit_fields import limit_named
from approvals.web.settings.operators import TRIES, kept_tenants, names_after, origin_of
from approvals.web.settings.tools.tries import keep
from ledger.agents import enrolment
from ledger.events import edits_between
from ledger.foundation.crypto import standard_webhooks
from ledger.models import Agent, AgentToken, Scope, Transaction
from ledger.models.agents import ALL_TOOLS

SHOWN = 500  # agents on the page
MOST_TOKENS = 100


@login_required
@require_safe
def agents(request: HttpRequest) -> HttpResponse:
    tenants = kept_tenants(request)
    issued = Q(tokens__is_temporary=False, tokens__revoked_at=None)
    usable = issued & ~Q(tokens__expires_at__lt=timezone.now())
    rows = Agent.objects.filter(tenant__in=tenants).select_related("tenant")
    counted = rows.annotate(
        tokens_there=Count("tokens", filter=usable), used_at=Max("tokens__last_used_at")
    )
    context = {
        "agents": counted.order_by("-is_active", "tenant", "name")[:SHOWN],
        "has_tenants": len(tenants) > 1,
    }
    return render(request, "settings/agents.html", context)


@login_required
@require_http_methods(["GET", "POST"])
def new_agent(request: HttpRequest) -> HttpResponse:
    """Let an agent in: its name, and a token with which it may propose."""
    form = NewAgentForm(request.POST or None, tenants=kept_tenants(request))
    if request.method == "POST" and form.is_valid():
        wanted, origin = form.cleaned_data, origin_of(request)
        with atomic():
            agent = enrolment.agent_named(
                wanted["tenant"], wanted["slug"], wanted["name"], **origin
            )
            keep(request, agent)
            _allow(agent, wanted["tools"], origin)
            _row, token = enrolment.issue(
                agent, scopes=[Scope.PROPOSE.value], expires_at=form.expires_at(), **origin
            )
        return _page(request, agent, token=token)
    status = 422 if form.errors else 200
    return render(request, "settings/agent_new.html", {"form": form}, status=status)


def _allow(row: Agent, tools: list[str], origin: dict[str, Any]) -> None:
    wanted = [ALL_TOOLS] if ALL_TOOLS in tools else tools
    if edits := edits_between({"tools": row.tools}, {"tools": wanted}):
        row.tools = wanted
        row.save(update_fields=["tools"])
        enrolment.was_changed(row, edits, **origin)


@login_required
@require_http_methods(["GET", "POST"])
def agent(request: HttpRequest, agent_id: int) -> HttpResponse:
    """One agent; what is posted is saved."""
    row = _kept(request, agent_id)
    if request.method != "POST":
        return _page(request, row)
    form = _form(request, row, request.POST)
    if not form.is_valid():
        return _page(request, _kept(request, agent_id), form=form)
    secret = _save(request, form)
    messages.success(request, _("Saved."))
    if secret:
        return _page(request, row, secret=secret)
    return redirect("desk:agent", row.pk)


def _save(request: HttpRequest, form: AgentForm) -> str:
    """Save and seal what this person changed, and nothing that somebody else did meanwhile.

    Returns a webhook secret that was made for it.
    """
    with atomic():
        row = Agent.objects.select_for_update().get(pk=form.instance.pk)
        wanted = {name: form.cleaned_data[name] for name in form.changed_data}
        if "tools" in wanted:
            wanted["tools"] = names_after(form, "tools", row.tools)
        before = {name: _present(row, name) for name in wanted}
        for name, value in wanted.items():
            _set(row, name, value)
        is_new_secret = bool(row.webhook_url) and not row.webhook_secret
        if is_new_secret:
            row.webhook_secret = standard_webhooks.new_secret()
        row.save()
        if edits := edits_between(before, wanted):
            enrolment.was_changed(row, edits, **origin_of(request))
    return str(row.webhook_secret) if is_new_secret else ""


def _present(row: Agent, name: str) -> Any:
    limit = limit_named(name)
    return row.limits.get(limit) if limit else getattr(row, name)


def _set(row: Agent, name: str, value: Any) -> None:
    limit = limit_named(name)
    if not limit:
        setattr(row, name, value)
    elif value is None:
        row.limits.pop(limit, None)
    else:
        row.limits[limit] = value


@login_required
@require_POST
def renew_secret(request: HttpRequest, agent_id: int) -> HttpResponse:
    row = enrolment.renew_secret(_kept(request, agent_id), **origin_of(request))
    return _page(request, row, secret=str(row.webhook_secret))


@login_required
@require_POST
def issue_token(request: HttpRequest, agent_id: int) -> HttpResponse:
    """Issue a token, which the answer shows once."""
    row, form = _kept(request, agent_id), TokenForm(request.POST)
    if row.slug.startswith(TRIES):
        raise Http404  # it speaks for one person alone
    if not form.is_valid():
        return _page(request, row, token_form=form)
    if request.POST.get("newest", "") not in {"", _newest_token(row)}:
        messages.error(
            request,
            _("A token was issued since this page was opened, and no other one now. Look below."),
        )
        return redirect("desk:agent", row.pk)
    wanted = form.cleaned_data
    _row, token = enrolment.issue(
        row,
        scopes=wanted["scopes"],
        default_skill=wanted["default_skill"],
        expires_at=form.expires_at(),
        **origin_of(request),
    )
    return _page(request, row, token=token)


@login_required
@require_POST
def rotate_token(request: HttpRequest, agent_id: int, token_id: int) -> HttpResponse:
    """Issue a token with the same rights and lifetime in place of this one."""
    row, origin = _kept(request, agent_id), origin_of(request)
    old = get_object_or_404(_issued(row), pk=token_id)
    with atomic():
        if not enrolment.revoke(old, reason="Revoked: rotated.", **origin):
            messages.error(request, _("It was revoked already. Nothing was changed."))
            return redirect("desk:agent", row.pk)
        _row, token = enrolment.issue(
            row,
            scopes=old.scopes,
            default_skill=old.default_skill,
            expires_at=_same_lifetime(old),
            reason=f"In place of {old}",
            **origin,
        )
    return _page(request, row, token=token)


def _newest_token(row: Agent) -> str:
    """Sent with the form, so that a page that is loaded again issues nothing."""
    newest = _issued(row).aggregate(newest=Max("pk"))["newest"]
    return str(newest or 0)


def _issued(row: Agent) -> QuerySet[AgentToken]:
    """Those that operators gave out: of sign-ins there is a new one every few minutes."""
    return row.tokens.filter(is_temporary=False)


def _same_lifetime(old: AgentToken) -> Any:
    return old.expires_at and timezone.now() + (old.expires_at - old.created_at)


@login_required
@require_POST
def revoke_token(request: HttpRequest, agent_id: int, token_id: int) -> HttpResponse:
    row = _kept(request, agent_id)
    token = get_object_or_404(_issued(row), pk=token_id)
    if enrolment.revoke(token, reason="Revoked.", **origin_of(request)):
        messages.success(request, _("Revoked: it stopped working, for good."))
    return redirect("desk:agent", row.pk)


@login_required
@require_safe
def first_request(request: HttpRequest, agent_id: int) -> HttpResponse:
    """The first request of the agent, or that none has come yet; part of its page."""
    row = _kept(request, agent_id)
    own = Transaction.objects.filter(tenant=row.tenant_id, proposed_by=str(row.principal))
    return render(
        request, "settings/_first_request.html", {"first": own.order_by("created_at").first()}
    )


def _kept(request: HttpRequest, agent_id: int) -> Agent:
    rows = Agent.objects.filter(tenant__in=kept_tenants(request)).select_related("tenant")
    return get_object_or_404(rows, pk=agent_id)


def _form(request: HttpRequest, row: Agent, posted: Any = None) -> AgentForm:
    editor = str(origin_of(request)["by"])
    return AgentForm(posted, instance=row, editor=editor, people=_people(row))


def _people(row: Agent) -> QuerySet[User]:
    people = User.objects.filter(is_active=True, memberships__tenant=row.tenant_id)
    return people.order_by("first_name", "username").distinct()


def _page(
    request: HttpRequest,
    row: Agent,
    *,
    form: AgentForm | None = None,
    token_form: TokenForm | None = None,
    token: str = "",
    secret: str = "",
) -> HttpResponse:
    kept = _issued(row).order_by(F("revoked_at").desc(nulls_first=True), "-pk")[:MOST_TOKENS]
    context = {
        "agent": row,
        "form": form or _form(request, row),
        "token_form": token_form or TokenForm(),
        "functions": _functions(row),
        "tokens": [(each, [scope_in_words(scope) for scope in each.scopes]) for each in kept],
        "newest_token": _newest_token(row),
        "token": token,
        "secret": secret,
        "call": first_calls.first_call(row.tenant_id, token, _allowed(row)) if token else None,
    }
    errors = (form and form.errors) or (token_form and token_form.errors)
    return render(request, "settings/agent.html", context, status=422 if errors else 200)


def _allowed(row: Agent) -> list[str]:
    """The tools that both the tenant and the agent are allowed."""
    if "*" in row.tools:
        return list(row.tenant.tools)
    if "*" in row.tenant.tools:
        return list(row.tools)
    return sorted({*row.tools} & {*row.tenant.tools})


def _functions(row: Agent) -> Any:
    """Those that Assent carries out for it; ``None`` where that app is left out."""
    if not apps.is_installed("a2a.doors.humanlayer"):
        return None
    from approvals.web.settings.connections import functions

    return functions.functions_of(row)[:SHOWN]
