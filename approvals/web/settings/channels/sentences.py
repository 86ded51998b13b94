"""A route of Slack, as a sentence."""

from __future__ import annotations

from django.utils.translation import gettext as _, ngettext

from approvals.models import Concern, SlackRoute
from approvals.people import name_of
from approvals.presentation.labels import risk_words
from approvals.slack.messages.recipients import target_of


def sentence_of(route: SlackRoute, *, names_tenant: bool) -> str:
    """Its content and its places, in the words of the form.

    A route with an owner or a least risk has no questions, whatever it says it concerns.
    """
    parts = [_matter(route)]
    if route.owner:
        parts.append(_("of the service {owner}").format(owner=route.owner))
    if route.min_risk:
        parts.append(_("of at least {risk} risk").format(risk=risk_words(route.min_risk)))
    if names_tenant:
        parts.append(_("of {tenant}").format(tenant=route.tenant.name))
    what, to = ", ".join(parts), _place(route)
    if not route.escalate_to or route.escalate_after is None:
        return _("{what}: to {place}.").format(what=what, place=to)
    minutes = route.escalate_after.total_seconds() / 60
    after = ngettext("{minutes} minute", "{minutes} minutes", round(minutes)).format(
        minutes=f"{minutes:g}"
    )
    return _("{what}: to {place}. If nobody acts within {after}, also to {next}.").format(
        what=what, place=to, after=after, next=route.escalate_to
    )


def _matter(route: SlackRoute) -> str:
    concerns = Concern(route.concerns)
    if concerns == Concern.EVERYTHING and (route.owner or route.min_risk):
        concerns = Concern.TRANSACTIONS
    if not route.tool:
        return {
            Concern.EVERYTHING: _("Every proposal and every question"),
            Concern.TRANSACTIONS: _("Every proposal"),
            Concern.QUESTIONS: _("Every question"),
        }[concerns]
    return {
        Concern.EVERYTHING: _("Proposals and questions of {tool}"),
        Concern.TRANSACTIONS: _("Proposals of {tool}"),
        Concern.QUESTIONS: _("Questions of {tool}"),
    }[concerns].format(tool=route.tool)


def _place(route: SlackRoute) -> str:
    if route.approver is None:
        return route.channel
    name = name_of(route.approver)
    if not target_of(route):
        text = _("{name} (not linked to Slack, or without a role: it goes nowhere)")
        return text.format(name=name)
    return name
