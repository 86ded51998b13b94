"""Sentences of a message that say if what an agent asks for is usual."""

from __future__ import annotations

from collections.abc import Iterator

from django.utils.translation import gettext as _, ngettext
from slack_sdk.models.blocks import Block, ContextBlock

from approvals.presentation import span_written
from approvals.presentation.labels import title_of
from approvals.slack.rendering.text import bold, one_line, plain, regular, rich
from ledger.models import Transaction
from ledger.reporting.usage import Usual, usual_of


def usual(row: Transaction) -> Iterator[Block]:
    """Points for an approver to look twice at, in bold; below them the figures of 30 days."""
    figures = usual_of(row)
    if figures.is_unusual:
        yield rich(bold(_("Unusual:")), regular(" " + " ".join(_remarks(figures))))
    if not figures.is_first_of_agent:
        yield ContextBlock(elements=[plain(one_line(_record(figures, row)), 500)])


def _remarks(figures: Usual) -> Iterator[str]:
    if figures.is_first_of_agent:
        yield _("The agent asks for this for the first time in 30 days.")
    if figures.is_burst:
        text = _("It asked {today} times today, far more than on other days.")
        yield text.format(today=figures.today)
    if figures.is_first_of_subject and not figures.is_first_of_agent:
        yield _("{subject}: the first time in 30 days.").format(subject=_subject(figures))
    if figures.is_often:
        yield _times(figures)
    if figures.is_beyond and figures.amounts is not None:
        text = _("More than the usual {range}.")
        yield text.format(range=span_written(figures.amounts))


def _times(figures: Usual) -> str:
    text = _("{subject}: {times} times in 30 days, this one included.")
    if figures.is_more:
        text = _("{subject}: more than {times} times in 30 days.")
    return text.format(subject=_subject(figures), times=figures.times)


def _subject(figures: Usual) -> str:
    return one_line(figures.subject)[:100]


def _record(figures: Usual, row: Transaction) -> str:
    text = ngettext(
        "{agent} asked {count} time for “{tool}” in 30 days: "
        "{approved} approved, {rejected} rejected.",
        "{agent} asked {count} times for “{tool}” in 30 days: "
        "{approved} approved, {rejected} rejected.",
        figures.asked,
    )
    return text.format(
        agent=row.proposed_by_name,
        count=figures.asked,
        tool=title_of(row.tool),
        approved=figures.approved,
        rejected=figures.rejected,
    )
