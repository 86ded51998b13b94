"""Stopping in Slack, and letting go on: what the form offers, and what a click does.

Who may is decided by ``approvals.desk``, as on the page.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.utils.translation import gettext as _
from slack_sdk.models.views import View

from approvals.desk import SPANS, may_lift, put_in_words, scope_in_words, scopes_within, span_of
from approvals.http.middleware import roles_of
from approvals.models import SlackWorkspace
from approvals.people import principal_of
from approvals.presentation import refusal_in_words
from approvals.slack.interactions.authorization import (
    Refused,
    check_message,
    check_person,
    check_workspace,
)
from approvals.slack.interactions.command_queue import Claim
from approvals.slack.interactions.commands import Click, Source
from approvals.slack.rendering import ButtonValue, ModalValue, desk_link, home, modals
from ledger.errors import LedgerError, NotAllowed, NotFound, Sentence
from ledger.events import brakes
from ledger.events.brakes import Scope
from ledger.models import Agent, Brake, Transaction
from ledger.principals import Principal, Surface
from ledger.tools import last_named

VERBS = frozenset({"stop", "lift"})
MOST_AGENTS = 80  # so that their tenants have a place in the list, too


def form(button: ButtonValue, source: Source) -> View:
    """The form with all that the person may stop. Raises ``Refused, LedgerError``."""
    workspace, person = _checked(button, source, acts=False)
    scopes = _offered(person, workspace, button)
    if not scopes and button.subject and not button.message:
        text = _("There is neither an agent nor a tool {name} that you could stop.")
        raise Refused(text.format(name=button.subject), desk_link("stop"))
    if not scopes:
        raise NotAllowed(Sentence("Managers stop agents and tools, operators also the rest."))
    tenants = {scope.tenant for scope in scopes if scope.tenant}
    choices = [
        (modals.key_of(scope), scope_in_words(scope), scope.tenant if len(tenants) > 1 else "")
        for scope in scopes[: modals.MOST_OPTIONS]
    ]
    value = ModalValue(button, source.channel, source.ts)
    spans = [(key, str(label)) for key, label in SPANS.items()]
    return modals.stop(choices, spans, value, is_narrow=bool(button.subject))


def errors(button: ButtonValue, source: Source, inputs: dict[str, Any]) -> dict[str, str]:
    """The errors of a filled-in form, by block."""
    try:
        workspace, person = _checked(button, source)
        _chosen(person, workspace, button, inputs)
    except Refused as refusal:
        return {modals.WHAT: str(refusal)}
    except LedgerError as refusal:
        return {modals.WHAT: refusal_in_words(refusal)}
    try:
        brakes.check_why(modals.why_of(inputs))
    except LedgerError as refusal:
        return {modals.WHY: refusal_in_words(refusal)}
    return {}


def act(claim: Claim[Click]) -> str:
    """Stop it or let it go on; the text to tell. Raises ``Refused, LedgerError``."""
    click = claim.command
    workspace, person = _checked(click.button, click.source)
    if click.button.verb == "lift":
        return _lift(person, workspace, int(click.button.subject))
    scope = _chosen(person, workspace, click.button, click.inputs)
    why, by = modals.why_of(click.inputs), principal_of(person)
    # An earlier attempt at this click may have stopped it already.
    own = Brake.objects.standing().filter(by=str(by), why=why, at__gte=claim.created_at)
    own = own.filter(tenant=scope.tenant, agent=scope.agent, tool=scope.tool)
    if own.exists():
        text = _("Stopped: nothing of it begins any more.")
    else:
        lasts = span_of(modals.span_in(click.inputs))
        text = put_in_words(brakes.put(scope, why, by=by, via=Surface.SLACK, lasts=lasts))
    return f"{scope_in_words(scope)}: {text}"


def _lift(person: User, workspace: SlackWorkspace, brake_id: int) -> str:
    roles = roles_of(person)
    tenants = home.tenants_in(workspace, person, roles)
    brake = Brake.objects.filter(pk=brake_id, tenant__in=["", *tenants]).first()
    if brake is None:
        raise NotFound(Sentence("There is no such brake."))
    by = principal_of(person)
    if not may_lift(brake, str(by), roles, is_superuser=person.is_superuser):
        raise NotAllowed(Sentence("Who stopped it lets it go on, or an operator."))
    brakes.lift(brake.pk, by=by, via=Surface.SLACK)
    return f"{scope_in_words(brake)}: {_('It goes on.')}"


def _checked(
    button: ButtonValue, source: Source, *, acts: bool = True
) -> tuple[SlackWorkspace, User]:
    """Of a card as any click there; else of the workspace of whoever acts. Raises ``Refused``."""
    _app, workspace = check_workspace(source, button if button.message else None)
    if button.message:
        check_message(workspace, button, source)
    return workspace, check_person(workspace, source, acts=acts)


def _chosen(
    person: User, workspace: SlackWorkspace, button: ButtonValue, inputs: dict[str, Any]
) -> Scope:
    key = modals.chosen_in(inputs)
    for scope in _offered(person, workspace, button):
        if modals.key_of(scope) == key:
            return scope
    raise NotAllowed(Sentence("Managers stop agents and tools, operators also the rest."))


def _offered(person: User, workspace: SlackWorkspace, button: ButtonValue) -> list[Scope]:
    """Of what the button is about, all that the person may stop; without a subject, of theirs."""
    roles = roles_of(person)
    tenants = home.tenants_in(workspace, person, roles)
    scopes: list[Scope] = []
    for seen in _seen(button, tenants):
        scopes += scopes_within(seen, tenants, roles, is_superuser=person.is_superuser)
    narrowest_first = sorted(scopes, key=lambda each: not (each.agent or each.tool))
    return list(dict.fromkeys(narrowest_first))


def _seen(button: ButtonValue, tenants: Collection[str]) -> list[Scope]:
    if button.message:
        row = Transaction.objects.get(pk=UUID(button.subject))
        by_agent = Principal.parse(row.proposed_by).is_agent
        return [Scope(row.tenant, row.proposed_by if by_agent else "", row.tool)]
    agents = Agent.objects.filter(tenant__in=tenants, is_active=True).order_by("slug", "tenant")
    if not (name := button.subject):
        return [Scope(), *(_scope_of(agent) for agent in agents[:MOST_AGENTS])]
    tools = [Scope(each, "", name) for each in sorted(tenants) if last_named(each, name)]
    return [*map(_scope_of, agents.filter(slug=name)), *tools]


def _scope_of(agent: Agent) -> Scope:
    return Scope(agent.tenant_id, str(agent.principal))
