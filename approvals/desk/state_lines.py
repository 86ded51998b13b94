"""Outcome of a transaction, and by whom, in one line: the first that the item says."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _, pgettext

from approvals.desk import seats
from approvals.desk.signatures import Signatures
from approvals.presentation import (
    ENDINGS,
    LET_GO,
    in_words,
    length,
    standing_address,
    state_sentence,
)
from ledger.errors import LedgerError, Sentence, kept
from ledger.models import Event, Transaction
from ledger.states import Ending, EventKind, State


@dataclass(frozen=True, slots=True)
class StateLine:
    """A sentence, and since when it is so."""

    text: str | SafeString
    since: datetime | None = None


def state_line(
    row: Transaction, viewer: str, signatures: Signatures, *, may_decide: bool
) -> StateLine:
    """The line for this viewer, a principal."""
    if row.state == State.PREPARED:
        return StateLine(_waiting(signatures, may_decide=may_decide))
    if row.state in LET_GO and row.ending:
        return _ended(row, viewer)
    text = _with_who_approved(row, viewer)
    since = _since(row)
    return StateLine(_before_a_time(text) if since else text, since)


def _with_who_approved(row: Transaction, viewer: str) -> str | SafeString:
    """The sentence of the state; where a decision led to it, with who made that."""
    sentence = state_sentence(row)
    match row.state:
        case State.APPROVED | State.COMMITTING | State.HANDED_OVER:
            return _with(_approved(row, viewer), sentence)
        case State.COMMITTED | State.COMPENSATED:
            return _with(sentence, _approved(row, viewer))
    return sentence


def _since(row: Transaction) -> datetime | None:
    match row.state:
        case State.REFUSED:
            return row.created_at
        case State.APPROVED | State.COMMITTING:
            return row.decided_at
        case State.IN_DOUBT:
            return _last_at(row, EventKind.FELL_IN_DOUBT)
        case State.COMPENSATING:
            return _last_at(row, EventKind.COMPENSATION_STARTED)
    return row.ended_at


def _before_a_time(text: str | SafeString) -> str | SafeString:
    """Without the full stop: the time follows in the same sentence."""
    open_end = str(text).removesuffix(".")
    return mark_safe(open_end) if isinstance(text, SafeString) else open_end


def _waiting(signatures: Signatures, *, may_decide: bool) -> str | SafeString:
    if may_decide:
        return _("Waiting for you")
    if not signatures.candidates and signatures.seats:
        groups = [seat.group for seat in signatures.seats if seat.group and not seat.signed]
        return _sentence(_("Waiting for {name}"), *dict.fromkeys(groups))
    if not signatures.candidates:
        return _("Waiting for a manager")
    return _sentence(_("Waiting for {name}"), signatures.waits_for)


def _approved(row: Transaction, viewer: str) -> str | SafeString:
    signed = seats.counted_approvals(row)
    if not signed:
        return _("It passed by policy.")
    by_hand: list[str] = []
    in_advance: list[str] = []
    for each in signed:
        name = pgettext("by you", "you") if each.principal == viewer else each.principal_name
        if each.grant_id is None:
            by_hand.append(name)
        else:
            there = standing_address(each.grant_id)
            in_advance.append(format_html('<a href="{}">{}</a>', there, name))
    parts = [(_("Approved by {name}."), by_hand), (_("Signed in advance by {name}."), in_advance)]
    sentences = (_sentence(template, *names) for template, names in parts if names)
    return format_html_join(" ", "{}", ((each,) for each in sentences))


def _ended(row: Transaction, viewer: str) -> StateLine:
    """The line of a transaction that ends without an effect: why, and who ended it."""
    event = _decisive(row)
    at = event.at if event else row.decided_at or row.ended_at
    text = _sentence(_(ENDINGS[Ending(row.ending)]), _actor(event, viewer))
    return StateLine(_before_a_time(text), at)


DECISIVE = frozenset(
    {
        EventKind.REJECTED,
        EventKind.SENT_BACK,
        EventKind.OUTDATED,
        EventKind.EXPIRED,
        EventKind.CANCELED,
        EventKind.WITHDRAWN,
        EventKind.HOLD_LAPSED,
        EventKind.PLAN_ABANDONED,
        EventKind.FAILED,
    }
)


def _decisive(row: Transaction) -> Event | None:
    events = [event for event in row.events.all() if event.kind in DECISIVE]
    return max(events, key=lambda event: event.seq, default=None)


def _actor(event: Event | None, viewer: str) -> str:
    if event is None:
        return _("somebody")
    return pgettext("by you", "you") if event.principal == viewer else event.principal_name


def _last_at(row: Transaction, kind: EventKind) -> datetime | None:
    return max((event.at for event in row.events.all() if event.kind == kind), default=None)


def _with(first: str, second: str) -> SafeString:
    return format_html("{} {}", first, second)


def _sentence(template: str, *names: str) -> SafeString:
    """The sentence with the names, each kept apart from the direction of what is around it."""
    joined = format_html_join(", ", "<bdi>{}</bdi>", ((name,) for name in names))
    return format_html(template, name=joined)


# What begins the text of an exception that a tool raised, before a colon.
CLASSES = ("Error", "Exception", "Timeout", "Refused")


def error_in_words(row: Transaction) -> str:
    """The error, without the name of a class, as a sentence."""
    error = kept(row, "error")
    if isinstance(error, Sentence):
        return in_words(error)
    kind, _colon, text = error.strip().partition(": ")
    if not text or not kind.endswith(CLASSES) or " " in kind:
        text = error.strip()
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."


def who_was_faster(refusal: LedgerError, now: datetime) -> str:
    """``Bob Tanaka approved it 2 s before you.``; empty if the refusal has another cause."""
    decided = refusal.extra
    sentences = {
        EventKind.APPROVED: _("{name} approved it {time} before you."),
        EventKind.REJECTED: _("{name} rejected it {time} before you."),
        EventKind.SENT_BACK: _("{name} sent it back {time} before you."),
    }
    sentence = sentences.get(decided.get("decision", ""))
    if sentence is None or not decided.get("decided_at"):
        return ""
    past = now - datetime.fromisoformat(decided["decided_at"])
    return sentence.format(name=decided["decided_by_name"], time=length(past.total_seconds()))
