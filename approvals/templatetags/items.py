"""Template filters of the open item: its texts, details, decisions and states in words."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal
from itertools import islice
from typing import Any

from django import template
from django.utils.translation import gettext as _

from a2a.models import Task
from a2a.states import TaskEventKind, TaskState
from approvals.desk import error_in_words, is_signed_by, managers_in_words
from approvals.presentation import (
    Detail,
    Piece,
    folded_piece,
    full_display,
    kept_in_words,
    key_of_file,
    labels,
    length,
    number_written,
    outcome_label,
    standing_address,
    with_next_step,
)
from approvals.templatetags.desk import folded, tone
from ledger.contracts import RequiredApprover
from ledger.models import Decision, Event, Transaction, Verdict
from ledger.sign_off.passkeys import ASSERTION
from ledger.states import Ending, EventKind, State
from ledger.tools import is_for_agent

AMBIGUOUS = frozenset({"true", "false", "null", "yes", "no"})
MOST_ROWS = 40  # of data that is shown as a table
register = template.Library()
register.filter("in_title", labels.title_of)
register.filter("first_words", labels.first_words)
register.filter("error_in_words", error_in_words)
register.filter("risk_words", labels.risk_words)
register.filter("where_it_runs", labels.where_it_runs)
register.filter("not_promised", labels.not_promised)
register.filter("how_it_runs", labels.how_it_runs)
register.filter("is_for_agent", is_for_agent)
register.filter("permit_for", labels.permit_for)
register.filter("what_now", with_next_step)
register.filter("outcome_words", outcome_label)
register.filter("standing_address", standing_address)
register.filter("length_of_time", length)
register.filter("kept_in_words", kept_in_words)
register.filter("key_of_file", key_of_file)
register.filter("is_signed_by", is_signed_by)


@register.filter
def rows_of(data: Any) -> list[tuple[str, str]]:
    """Every value in an object with its name; none if it is no object, or a large one."""
    if not isinstance(data, dict) or not data:
        return []
    rows = list(islice(labels.leaves(data), MOST_ROWS + 1))
    if len(rows) > MOST_ROWS or any(_is_ambiguous(value) for _name, value in rows):
        return []
    return [(name, labels.read(value)) for name, value in rows]


def _is_ambiguous(value: Any) -> bool:
    """True for what reads as something else without the quotes and brackets of JSON."""
    if isinstance(value, str):
        return not value.strip() or value in AMBIGUOUS or value[0] in "[{" or _is_number(value)
    return isinstance(value, bool | list | dict) or value is None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


@register.filter
def in_titles(names: Iterable[str]) -> str:
    return ", ".join(map(labels.title_of, names))


VERDICT_OF = {
    EventKind.APPROVAL_RECORDED: Verdict.APPROVE,
    EventKind.APPROVED: Verdict.APPROVE,
    EventKind.REJECTED: Verdict.REJECT,
    EventKind.SENT_BACK: Verdict.SEND_BACK,
    EventKind.PASSED_ON: Verdict.PASS_ON,
}


@register.filter
def is_cut(text: Any) -> bool:
    """True if a folded page leaves a part of the text out."""
    return bool(folded(text, is_whole=False) != str(text))


@register.filter
def characters(text: Any) -> str:
    """The length of the text: ``2,900``."""
    return number_written(len(str(text)))


@register.filter
def details_folded(details: list[Detail], is_whole: bool) -> list[Detail]:
    """The details that a folded page shows: as many values as the desk shows without asking."""
    if is_whole:
        return details
    kept, left = [], full_display.SURFACES[full_display.DESK].parts_most
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
def evidence_shown(pieces: list[Piece], is_whole: bool) -> list[Piece]:
    """The pieces as a folded page shows them: in full, or where they are long their beginning."""
    return [
        folded_piece(piece) if not is_whole and is_cut(piece.text) else piece for piece in pieces
    ]


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
def is_signed(event: Event) -> bool:
    """True if the event keeps what a passkey signed."""
    return ASSERTION in json.loads(event.details)


@register.filter
def as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


@register.filter
def outcome_tone(row: Transaction) -> str:
    is_calm = row.state == State.PREPARED
    return "" if is_calm else tone(row)


@register.filter
def decided_by(row: Transaction) -> str:
    """The names of those whose decision it was."""
    refusals = {Ending.REJECTED: Verdict.REJECT, Ending.SENT_BACK: Verdict.SEND_BACK}
    wanted = refusals.get(row.ending, Verdict.APPROVE)  # type: ignore[call-overload]
    names = [
        _("{name} (in advance)").format(name=given.principal_name)
        if given.grant_id
        else given.principal_name
        for given in row.decisions.all()
        if given.verdict == wanted
    ]
    if names and row.ending in {Ending.EXPIRED, Ending.CANCELED}:
        return ""  # some approved, and it was not enough
    return ", ".join(names)


@register.filter
def took(row: Transaction) -> str:
    """The time that it waited for its decision."""
    if row.decided_at is None:
        return ""
    return length((row.decided_at - row.created_at).total_seconds())


@register.filter
def who_signs(card: dict[str, Any]) -> str:
    """Of a tool's contract: ``two managers``."""
    if card["required_approver"] == RequiredApprover.NONE:
        return _("nobody signs")
    managers = managers_in_words(card["quorum"])
    if card["required_approver"] == RequiredApprover.SUPERVISOR and card["quorum"] == 1:
        return _("a supervising agent or one manager")
    return managers


@register.filter
def kind_words(kind: str) -> str:
    words = {
        "approved": _("approved"),
        "rejected": _("rejected"),
        "expired": _("expired"),
        "answered": _("answered"),
    }
    return words[kind]


@register.filter
def is_said_here(event: Event, task: Task) -> bool:
    """True for a reason that the history shows: the page says that of the end above it, and the
    label of progress has its note."""
    is_progress = event.kind == TaskEventKind.PROGRESSED
    return bool(event.reason) and not is_progress and event.reason != task.reason


@register.filter
def cost_words(cost: dict[str, Any]) -> str:
    """``0.0042 EUR, 18,200 tokens``: with all decimals, as most are fractions of a cent."""
    money = (
        [f"{number_written(Decimal(cost['amount']))} {cost['currency']}"]
        if cost.get("amount")
        else []
    )
    number = cost.get("tokens")
    used = [] if number is None else [_("{number} tokens").format(number=number_written(number))]
    return ", ".join([*money, *used])


@register.filter
def progress_words(task: Task) -> str:
    """``Reading: 41 of 47 transcripts``"""
    stage = labels.title_of(task.stage) if task.stage else _("At work")
    note = task.note.strip() if task.state == TaskState.WORKING else ""
    return f"{stage}: {note[:200]}" if note else stage
