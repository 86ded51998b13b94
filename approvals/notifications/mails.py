"""The e-mails: what they say, and the headers that let people and programs stop them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth.models import User
from django.core import signing
from django.core.mail import EmailMultiAlternatives
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.translation import gettext as _, ngettext

from approvals.http.middleware import roles_of
from approvals.models import Mail, NotificationSettings
from approvals.notifications import subjects, texts
from approvals.notifications.grant_news import News
from approvals.notifications.subjects import Item
from approvals.people import record_own
from approvals.presentation import decided_in_words, to_the_minute
from ledger.events import ChangeKind
from ledger.models import Transaction
from ledger.reporting.usage import count_decided, decided_as, decided_between
from ledger.states import EventKind

SALT = "approvals.notifications.unsubscribe"
MOST_LINES = 25  # of a digest
MOST_OF_SUMMARY = 10  # that wait, and that expired
# An agent's text: mail programs would make a link of it, in a letter that people trust.
LINK = re.compile(r"(?:\b[a-z][a-z0-9+.-]*://|\bwww\.)\S+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Line:
    """One item: its sentence, the time left, and the address of its page."""

    title: str
    body: str
    address: str


@dataclass(frozen=True, slots=True)
class Letter:
    """``lines`` wait for the person; a summary says before what was decided and what expired."""

    subject: str
    lines: Sequence[Line]
    more: int = 0
    decided: str = ""
    expired: Sequence[Line] = ()
    waiting: str = ""


def about(items: Sequence[Item], chosen: NotificationSettings, now: datetime) -> Letter:
    """The items that wait, the most urgent first, in the active language."""
    ordered = sorted(items, key=lambda item: item.row.expires_at)
    lines = [_line(item, chosen, now) for item in ordered[:MOST_LINES]]
    if chosen.mail == Mail.EACH:
        subject = f"{lines[0].title} · {lines[0].body}"
    else:
        subject = _waiting(len(items))
    return Letter(subject, lines, len(items) - len(lines))


def _waiting(number: int) -> str:
    words = ngettext("%(number)d thing waits for you", "%(number)d things wait for you", number)
    return words % {"number": number}


def summary(
    chosen: NotificationSettings, since: datetime, until: datetime, now: datetime
) -> Letter | None:
    """The letter on what was decided in that time and what waits now; ``None`` about nothing."""
    tenants = frozenset(roles_of(chosen.user))
    counts = count_decided(tenants, since, until)
    items = sorted(subjects.all_for(chosen.user, now), key=lambda item: item.row.expires_at)
    if not items and not counts:
        return None
    lines = [_line(item, chosen, now) for item in items[:MOST_OF_SUMMARY]]
    waiting = _waiting(len(items)) if items else _("Nothing waits for you")
    decided = _("Since %(time)s: %(parts)s") % {
        "time": to_the_minute(since),
        "parts": ", ".join(text for _kind, text in decided_in_words(counts)) or _("no decision"),
    }
    expired = () if chosen.hides_details else list(_expired(tenants, since, until))
    subject = _("Summary: %(waiting)s") % {"waiting": waiting}
    return Letter(subject, lines, len(items) - len(lines), decided, expired, waiting)


def _expired(tenants: frozenset[str], since: datetime, until: datetime) -> Iterator[Line]:
    """The newest that nobody decided in time."""
    rows = Transaction.objects.filter(
        decided_between(tenants, since, until), decided_as(EventKind.EXPIRED)
    )
    for row in rows.order_by("-decided_at")[:MOST_OF_SUMMARY]:
        yield _line_of(row)


def about_grant(news: News) -> Letter:
    """The news, and one line for each approval that it tells of."""
    page = settings.PUBLIC_URL + news.address
    lines = [Line(news.words.title, news.words.body, page)]
    for use in news.uses:
        lines.append(_line_of(use.transaction, to_the_minute(use.at)))
    if news.number > len(news.uses):
        lines.append(Line(_("All {number}…").format(number=news.number), "", page))
    return Letter(news.words.title, lines)


def _line_of(row: Transaction, body: str = "") -> Line:
    page = reverse("desk:transaction", args=[row.pk])
    return Line(LINK.sub("[…]", texts.shortened(row.headline)), body, settings.PUBLIC_URL + page)


def test(chosen: NotificationSettings) -> Letter:
    words = _("Notifications of Assent arrive at this address.")
    inbox = settings.PUBLIC_URL + reverse("desk:inbox")
    return Letter(_("This is a test"), [Line(words, "", inbox)])


def _line(item: Item, chosen: NotificationSettings, now: datetime) -> Line:
    words = texts.words_of(item, now, hides_details=chosen.hides_details)
    title = LINK.sub("[…]", words.title)
    return Line(title, words.body, settings.PUBLIC_URL + texts.address_of(item))


def message_of(letter: Letter, person: User, *, mark: str) -> EmailMultiAlternatives:
    """The e-mail. ``mark`` makes it the same to a mail program when it is sent twice."""
    stop = settings.PUBLIC_URL + reverse("desk:unsubscribe", args=[token_of(person)])
    context = {
        "letter": letter,
        "inbox": settings.PUBLIC_URL + reverse("desk:inbox"),
        "stop": stop,
    }
    host = urlsplit(settings.PUBLIC_URL).hostname
    message = EmailMultiAlternatives(
        subject=letter.subject,
        body=render_to_string("mail/notification.txt", context),
        to=[person.email],
        headers={
            "Message-ID": f"<delivery.{mark}@{host}>",
            "List-Unsubscribe": f"<{stop}>",
            "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
            "Auto-Submitted": "auto-generated",
        },
    )
    message.attach_alternative(render_to_string("mail/notification.html", context), "text/html")
    return message


def token_of(person: User) -> str:
    """Lets whoever reads the e-mail stop further ones, and do nothing else."""
    return signing.dumps(person.pk, salt=SALT)


def person_behind_token(token: str) -> User | None:
    try:
        key = signing.loads(token, salt=SALT)
    except signing.BadSignature:
        return None
    return User.objects.filter(pk=key).first()


def stop_mails(person: User) -> None:
    """Send this person no more e-mails; sealed as an event. Twice is as once."""
    chosen = NotificationSettings.objects.filter(user=person).exclude(
        mail=Mail.OFF, summary_hour=None
    )
    if chosen.update(
        mail=Mail.OFF, summary_hour=None, second_summary_hour=None, summary_due_at=None
    ):
        record_own(person, ChangeKind.NOTIFICATIONS_TURNED_OFF, where="e-mail")
