"""Trying a tool from its page: a form from its schema, and a proposal that waits in the inbox."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from django.contrib.auth.decorators import login_required
from django.db.transaction import atomic
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods

from approvals.people import is_only_manager, name_of, principal_of
from approvals.presentation import refusal_and_hint
from approvals.presentation.forms import form_of, read_form, show_value
from approvals.web.settings.first_calls import examples_of
from approvals.web.settings.operators import TRIES, kept_tenants, origin_of
from approvals.web.sign_in.authentication import person_of
from ledger.agents import enrolment
from ledger.api import render_token
from ledger.errors import LedgerError, NotPossible, Sentence
from ledger.models import Agent, Tenant
from ledger.principals import Surface
from ledger.tools import tool_named
from ledger.transactions.coordinator import Proposal, prepare


@login_required
@require_http_methods(["GET", "POST"])
def try_tool(request: HttpRequest, tenant: str, name: str) -> HttpResponse:
    """Propose once with a tool of a tenant that the operator keeps."""
    row = get_object_or_404(kept_tenants(request), pk=tenant)
    tool = tool_named(row.slug, name)
    if tool is None:
        return redirect("desk:tools")
    schema = tool.arguments_model.model_json_schema()
    node, problem = form_of(schema), ""
    if request.method == "POST":
        value = read_form(node, request.POST, schema)
        if not node.is_faulty:
            try:
                return redirect("desk:transaction", propose(request, row, name, value))
            except LedgerError as refusal:
                problem = refusal_and_hint(refusal)
    else:
        show_value(node, examples_of(tool))
    context = {"tenant": row, "name": name, "node": node, "problem": problem}
    status = 422 if problem or node.is_faulty else 200
    return render(request, "settings/tool_try.html", context, status=status)


def propose(request: HttpRequest, tenant: Tenant, name: str, arguments: Any) -> Any:
    """Propose as an agent of the person; returns the id of the transaction.

    Raises what ``prepare`` raises.
    """
    answer = prepare(
        Proposal(name, arguments, reason="A try from the settings."),
        by=_agent_of(request, tenant).principal,
        tenant=tenant.slug,
        key=str(uuid4()),
        via=Surface.WEB,
        render=render_token,
    )
    return answer.transaction_id


def _agent_of(request: HttpRequest, tenant: Tenant) -> Agent:
    """The agent by which a person tries tools, which they keep. Raises ``NotPossible``."""
    person = person_of(request)
    slug, name = f"{TRIES}{person.pk}", f"{name_of(person)}, trying"
    with atomic():
        agent = enrolment.agent_named(tenant, slug, name, **origin_of(request))
        keep(request, agent)
    if not agent.is_active:
        raise NotPossible(Sentence("The agent by which you try tools is switched off."))
    return agent


def keep(request: HttpRequest, agent: Agent) -> None:
    """Make the person the keeper of an agent that has none: they do not sign what it proposes,
    unless nobody else ever could."""
    by = principal_of(person_of(request))
    if agent.kept_by or is_only_manager(agent.tenant_id, by):
        return
    edits = {"kept_by": [agent.kept_by, str(by)]}
    agent.kept_by = str(by)
    agent.save(update_fields=["kept_by"])
    enrolment.was_changed(agent, edits, **origin_of(request))
