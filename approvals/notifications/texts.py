"""The words of a notification, in the language of whoever reads it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.contrib.auth.models import User
from django.urls import reverse
from django.utils import translation
from django.utils.translation import gettext as _, ngettext

from a2a.models import Question
from approvals.desk import policies
from approvals.http.preferences import formats_of, preferences_of
from approvals.models import About
from approvals.notifications.subjects import Item
from ledger.models import Transaction

LONGEST = 180  # characters of a sentence: a locked phone shows fewer


@dataclass(frozen=True, slots=True)
class Words:
    """A title and a line below it, as a notification shows them."""

    title: str
    body: str


@contextmanager
def language_of(person: User) -> Iterator[None]:
    """Texts of this block are in the person's language; without a choice, the installation's.

    Money and numbers are in the formats that they chose.
    """
    chosen = preferences_of(person)
    with (
        translation.override(chosen.language or settings.LANGUAGE_CODE),
        formats_of(chosen.formats),
    ):
        yield


def words_of(item: Item, now: datetime, *, hides_details: bool) -> Words:
    """One sentence and the time left, in the active language."""
    title = _hidden_title(item.about) if hides_details else shortened(sentence_of(item))
    if item.about == About.DOUBT:
        return Words(title, _("In doubt: nobody knows yet whether it happened."))
    rest = left(item.row.expires_at - now)
    if isinstance(item.row, Transaction) and policies.asks_to_sign(item.row):
        return Words(title, f"{rest} · {_('Open to sign')}")
    return Words(title, rest)


def sentence_of(item: Item) -> str:
    if isinstance(item.row, Question):
        return _("%(agent)s asks: %(question)s") % {
            "agent": item.row.asked_by_name,
            "question": item.row.headline,
        }
    return item.row.headline


def _hidden_title(about: str) -> str:
    if about == About.QUESTION:
        return _("An agent asks a question")
    if about == About.DOUBT:
        return _("Something is in doubt")
    return _("Something waits for your sign-off")


def no_longer_waits() -> Words:
    return Words(_("Nothing to do here any more"), _("It was decided elsewhere."))


def test_words() -> Words:
    return Words(_("This is a test"), _("Notifications of Assent arrive in this browser."))


def shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1].rstrip()}…"


def left(rest: timedelta) -> str:
    """``15 min left``, in the active language."""
    minutes = max(0, round(rest.total_seconds() / 60))
    if minutes < 1:
        return _("less than a minute left")
    if minutes < 60:
        return ngettext("%(number)d min left", "%(number)d min left", minutes) % {"number": minutes}
    if minutes < 48 * 60:
        hours = minutes // 60
        return ngettext("%(number)d h left", "%(number)d h left", hours) % {"number": hours}
    days = minutes // (24 * 60)
    return ngettext("%(number)d day left", "%(number)d days left", days) % {"number": days}


def address_of(item: Item) -> str:
    """The path of its page."""
    if isinstance(item.row, Question):
        return reverse("desk:question", args=[item.row.pk])
    return reverse("desk:transaction", args=[item.row.pk])
