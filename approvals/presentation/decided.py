"""Numbers of what was decided in a while, in words: for inbox, history and summaries."""

from __future__ import annotations

from django.utils.translation import gettext as _, ngettext

from ledger.reporting.usage import Decided
from ledger.states import EventKind


def decided_in_words(decided: Decided) -> list[tuple[str, str]]:
    """Each kind with its number, ``("approved", "12 approved")``; without those of zero.

    Beyond what is counted there is no kind, and one number for all.
    """
    if decided.is_partial:
        number = decided.numbers.total()
        return [("", _("%(number)s decisions or more") % {"number": number})]
    return [
        (kind, _numbered(kind, number))
        for kind in (EventKind.APPROVED, EventKind.REJECTED, EventKind.EXPIRED)
        if (number := decided.numbers[kind])
    ]


def _numbered(kind: str, number: int) -> str:
    values = {"number": number}
    if kind == EventKind.APPROVED:
        return ngettext("%(number)s approved", "%(number)s approved", number) % values
    if kind == EventKind.REJECTED:
        return ngettext("%(number)s rejected", "%(number)s rejected", number) % values
    return ngettext("%(number)s expired", "%(number)s expired", number) % values


def kind_in_words(kind: str, since: str) -> str:
    """``Rejected since 14:05``; without a kind everything that was decided."""
    texts = {
        EventKind.APPROVED: _("Approved since %(time)s"),
        EventKind.REJECTED: _("Rejected since %(time)s"),
        EventKind.EXPIRED: _("Expired since %(time)s"),
    }
    text = texts[EventKind(kind)] if kind else _("Decided since %(time)s")
    return text % {"time": since}
