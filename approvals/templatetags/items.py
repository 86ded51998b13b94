"""Template filters of the open item: its texts, details, decisions and states in words."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from django import template
from django.utils.formats import number_format
from django.utils.translation import gettext as _

from approvals.desk import state_lines
from approvals.presentation import labels, shown_in_full
from approvals.presentation.details import Detail
from approvals.templatetags.desk import folded
from ledger.models import Decision, Event, Transaction, Verdict
from ledger.states import EventKind, State

register = template.Library()
register.filter("error_in_words", state_lines.error_in_words)
register.filter("length_of_time", state_lines.length)

VERDICT_OF = {
    EventKind.APPROVAL_RECORDED: Verdict.APPROVE,
    EventKind.APPROVED: Verdict.APPROVE,
    EventKind.REJECTED: Verdict.REJECT,
    EventKind.PASSED_ON: Verdict.PASS_ON,
}


@register.filter
def is_cut(text: Any) -> bool:
    """Whether a folded page leaves a part of the text out."""
    return bool(folded(text, is_whole=False) != str(text))


@register.filter
def characters(text: Any) -> str:
    """The length of the text: ``2,900``."""
    return number_format(len(str(text)), use_l10n=True, force_grouping=True)


@register.filter
def details_folded(details: list[Detail], is_whole: bool) -> list[Detail]:
    """The details that a folded page shows: as many values as the desk shows without asking."""
    if is_whole:
        return details
    kept, left = [], shown_in_full.SURFACES[shown_in_full.DESK].parts_most
    for detail in details:
        if left <= 0:
            break
        is_short = len(detail.values) <= left
        kept.append(
            detail if is_short else replace(detail, values=detail.values[:left], columns=[])
        )
        left -= len(detail.values)
    return kept


@register.filter
def in_words(value: Any) -> str:
    """A value of the arguments: a text as it is, and a word for what has no text of its own."""
    if value is None or value == "" or value == [] or value == {}:
        return _("empty")
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    return labels.plain(value)


@register.filter
def decision_of(row: Transaction, event: Event) -> Decision | None:
    """The decision that the event recorded."""
    try:
        verdict = VERDICT_OF.get(EventKind(event.kind))
    except ValueError:
        return None
    of_event = (
        given
        for given in row.decisions.all()
        if given.verdict == verdict and given.principal == event.principal
    )
    return next(of_event, None)


@register.filter
def risk_words(level: str) -> str:
    words = {"LOW": _("low"), "MEDIUM": _("medium"), "HIGH": _("high"), "CRITICAL": _("critical")}
    return words.get(level, level.lower())


@register.filter
def what_now(row: Transaction) -> str:
    """What happens next to a transaction that nobody has to decide on."""
    sentences = {
        State.APPROVED: _("Signed off; a worker is about to begin."),
        State.COMMITTING: _("A worker is carrying it out."),
        State.COMMITTED: _("Done."),
        State.ROLLING_BACK: _("Letting go of what was held."),
        State.ABORTED: _("It has ended. Nothing was done."),
        State.FAILED: _("It has ended. Nothing was done."),
        State.COMPENSATING: _("The tool is making up for it."),
        State.COMPENSATED: _("Done, then made good."),
        State.REFUSED: _("Nothing to decide: the tool refused it."),
    }
    return sentences.get(State(row.state), "")


@register.filter
def as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
