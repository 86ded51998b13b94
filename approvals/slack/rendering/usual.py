"""Sentences of a message that say if what an agent asks for is usual."""

from __future__ import annotations

from collections.abc import Iterator

from django.utils.translation import gettext as _, ngettext
from slack_sdk.models.blocks import Block, ContextBlock

from approvals.presentation import slip_in_words, span_written
from approvals.presentation.labels import title_of
from approvals.slack.rendering.text import bold, one_line, plain, regular, rich
from ledger.models import Transaction
from ledger.reporting.usage import Usual, usual_of


def usual(row: Transaction) -> Iterator[Block]:
    """Points for an approver to look twice at, in bold; below them the figures of 30 days."""
    figures = usual_of(row)
    if figures.is_unusual:
        yield rich(bold(_("Unusual:")), regular(" " + " ".join(_remarks(figures, row))))
    yield ContextBlock(elements=[plain(one_line(" ".join(_record(figures, row))), 500)])


def _remarks(figures: Usual, row: Transaction) -> Iterator[str]:
    if figures.slip is not None:
        yield slip_in_words(figures.slip, row)
    if figures.burst is not None:
        text = _("{number} of its requests came on one day, far more than usual.")
        if figures.burst.is_within_hour:
            text = _("{number} of its requests came within one hour, far more than usual.")
        yield text.format(number=figures.burst.number)
    if figures.is_new_subject:
        text = _("{subject}: the first time in 30 days, which is rare here.")
        yield text.format(subject=one_line(figures.subject)[:100])
    if figures.is_beyond and figures.amounts is not None:
        text = _("More than the usual {range}.")
        yield text.format(range=span_written(figures.amounts))


def _record(figures: Usual, row: Transaction) -> Iterator[str]:
    yield _asked(figures, row)
    if figures.times > 1:
        text = _("{subject}: {times} times in 30 days, this one included.")
        if figures.is_more:
            text = _("{subject}: more than {times} times in 30 days.")
        yield text.format(subject=one_line(figures.subject)[:100], times=figures.times)


def _asked(figures: Usual, row: Transaction) -> str:
    if figures.is_first_of_agent:
        return _("The agent asks for this for the first time in 30 days.")
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
