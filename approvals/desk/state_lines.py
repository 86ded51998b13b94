"""What became of a transaction, and by whom, in one line: the first that the item says."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _, pgettext

from approvals.desk import policies
from approvals.desk.signatures import Signatures
from approvals.presentation.kept_words import kept_in_words
from approvals.presentation.vocabulary import first_large, in_words
from ledger.catalogue import acts_itself
from ledger.errors import LedgerError
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
    if row.state in {State.ROLLING_BACK, State.ABORTED, State.FAILED} and row.ending:
        return _ended(row, viewer)
    approved = _approved(row, viewer)
    lines = {
        State.REFUSED: (_("Refused by the tool: nothing was prepared."), row.created_at),
        State.APPROVED: (
            _with(approved, by_its_agent(row) or _("A worker is about to begin.")),
            row.decided_at,
        ),
        State.COMMITTING: (
            _with(approved, by_its_agent(row) or _("A worker is carrying it out.")),
            row.decided_at,
        ),
        State.COMMITTED: (_with(_("Done."), approved), row.ended_at),
        State.HANDED_OVER: (
            _with(approved, _("Handed to the agent, which runs it itself.")),
            row.ended_at,
        ),
        State.IN_DOUBT: (_("In doubt: nobody knows yet whether it happened."), _doubted_at(row)),
        State.COMPENSATING: (_("It is being made good."), _last_at(row)),
        State.COMPENSATED: (_with(_("Done, then made good."), approved), row.ended_at),
        State.FAILED: (_("It failed. Nothing happened."), row.ended_at),
    }
    text, since = lines.get(
        State(row.state), (first_large(in_words(row.get_state_display())), None)
    )
    return StateLine(_before_a_time(text) if since else text, since)


def by_its_agent(row: Transaction) -> str:
    """What its agent is about to do, or does; empty where a worker does it."""
    if row.state not in {State.APPROVED, State.COMMITTING} or not acts_itself(row):
        return ""
    if row.state == State.APPROVED:
        return _("Its agent may now carry it out, with a permit.")
    return _("Its agent is carrying it out.")


def _before_a_time(text: str | SafeString) -> str | SafeString:
    """Without the full stop: the time follows in the same sentence."""
    open_end = str(text).removesuffix(".")
    return mark_safe(open_end) if isinstance(text, SafeString) else open_end


def _waiting(signatures: Signatures, *, may_decide: bool) -> str | SafeString:
    if may_decide:
        return _("Waiting for you")
    if not signatures.candidates:
        return _("Waiting for a manager")
    return _sentence(_("Waiting for {name}"), signatures.waits_for)


def _approved(row: Transaction, viewer: str) -> str | SafeString:
    signed = policies.counted_approvals(row)
    if not signed:
        return _("It passed by policy.")
    names = [
        pgettext("by you", "you") if each.principal == viewer else each.principal_name
        for each in signed
    ]
    return _sentence(_("Approved by {name}."), *names)


def _ended(row: Transaction, viewer: str) -> StateLine:
    """Why it was let go of, and who did that."""
    sentences = {
        Ending.REJECTED: _("Rejected by {name}"),
        Ending.EXPIRED: _("Expired: nobody decided in time"),
        Ending.CANCELED: _("Canceled by {name}"),
        Ending.HOLD_LAPSED: _("Not done: what was held lapsed"),
        Ending.PERMIT_LAPSED: _("Not done: the agent did not act in time"),
        Ending.ABANDONED: _("Not done: it could not be entered"),
        Ending.WITHDRAWN: _("Withdrawn by {name}"),
        Ending.FAILED: _("It failed. Nothing happened."),
    }
    event = _decisive(row)
    at = event.at if event else row.decided_at or row.ended_at
    text = _sentence(sentences[Ending(row.ending)], _actor(event, viewer))
    return StateLine(_before_a_time(text), at)


DECISIVE = frozenset(
    {
        EventKind.REJECTED,
        EventKind.EXPIRED,
        EventKind.CANCELED,
        EventKind.WITHDRAWN,
        EventKind.HOLD_LAPSED,
        EventKind.PLAN_ABANDONED,
        EventKind.FAILED,
    }
)


def _decisive(row: Transaction) -> Event | None:
    found = [event for event in row.events.all() if event.kind in DECISIVE]
    return max(found, key=lambda event: event.seq, default=None)


def _actor(event: Event | None, viewer: str) -> str:
    if event is None:
        return _("somebody")
    return pgettext("by you", "you") if event.principal == viewer else event.principal_name


def _doubted_at(row: Transaction) -> datetime | None:
    found = [event.at for event in row.events.all() if event.kind == EventKind.FELL_IN_DOUBT]
    return max(found, default=None)


def _last_at(row: Transaction) -> datetime | None:
    return max((event.at for event in row.events.all()), default=None)


def _with(first: str, second: str) -> SafeString:
    return format_html("{} {}", first, second)


def _sentence(template: str, *names: str) -> SafeString:
    """The sentence with the names, each kept apart from the direction of what is around it."""
    joined = format_html_join(", ", "<bdi>{}</bdi>", ((name,) for name in names))
    return format_html(template, name=joined)


# ``KeyError (error 1a2b3c4d)``: what the ledger keeps of an exception that a tool raised.
RAISED = re.compile(
    r"(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?: \((error [0-9a-f]{8})\)|: (.+))", re.DOTALL
)

CLASSES = ("Error", "Exception", "Timeout", "Refused")


def error_in_words(error: str) -> str:
    """What went wrong, without the name of a class, as a sentence."""
    if (kept := kept_in_words(error)) != error:
        return kept
    found = RAISED.fullmatch(error.strip())
    if found and found[1]:
        return _("The tool broke off; its log has more under {number}.").format(number=found[1])
    text = found[2].strip() if found and error.split(":")[0].endswith(CLASSES) else error.strip()
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."


def who_was_faster(refusal: LedgerError, now: datetime) -> str:
    """``Bob Tanaka approved it 2 s before you.``; empty if the refusal has another cause."""
    decided = refusal.extra
    sentences = {
        EventKind.APPROVED: _("{name} approved it {time} before you."),
        EventKind.REJECTED: _("{name} rejected it {time} before you."),
    }
    sentence = sentences.get(decided.get("decision", ""))
    if sentence is None or not decided.get("decided_at"):
        return ""
    past = now - datetime.fromisoformat(decided["decided_at"])
    return sentence.format(name=decided["decided_by_name"], time=length(past.total_seconds()))


def length(seconds: float) -> str:
    """``2 s``, ``4 min``, ``3 h``, ``5 d``: a length of time, rounded."""
    if seconds < 90:
        return _("{count} s").format(count=max(1, round(seconds)))
    if seconds < 90 * 60:
        return _("{count} min").format(count=round(seconds / 60))
    if seconds < 36 * 3600:
        return _("{count} h").format(count=round(seconds / 3600))
    return _("{count} d").format(count=round(seconds / 86_400))
