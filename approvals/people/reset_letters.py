"""Letters with a link to choose a new password, sent by a courier to the account's own address.

The request is a sealed event; the link is made when the letter is sent, so that its token is in no
table. Neither the answer to a request nor its time tells whether there is such an account.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import timedelta

from django.conf import settings
from django.contrib.auth.models import User
from django.core import signing
from django.core.mail import send_mail
from django.db.models.functions import Now
from django.db.transaction import atomic
from django.template.loader import render_to_string
from django.utils import translation
from django.utils.translation import gettext as _

from approvals import mail_server
from approvals.models import LinkPurpose, Preferences
from approvals.people.account_log import record_change
from approvals.people.principals import principal_of
from approvals.people.sign_in import new_link, second_steps
from ledger.events import ChangeKind, chain_of
from ledger.events.outbox import Owed
from ledger.foundation.characters import without_nul
from ledger.models import Delivery, Event
from ledger.principals import Surface, system

CHANNEL = "reset_letter"
SELDOM = timedelta(minutes=10)  # one letter in this time, however often strangers ask
ADDRESS_SALT, ADDRESS_VALID = "approvals.own_address", timedelta(hours=1)
A_DAY, MOST_A_DAY = timedelta(days=1), 5  # letters to one address, for all its accounts together
SIGN_IN = system("sign_in", "The sign-in page")


def letters_are_possible() -> bool:
    """True if this installation sends e-mail."""
    return settings.HAS_MAIL or bool(settings.EMAIL_URL)


def ask_for_letter(username: str) -> None:
    """Have a letter sent to the person of this name, if there is one with an address."""
    with atomic():
        # Of requests at the same time, one.
        rows = User.objects.select_for_update().filter(username=without_nul(username))
        person = rows.first()
        if person is None or not _may_get_one(person) or _had_enough(person):
            return
        owed = [(CHANNEL, str(principal_of(person)))]
        record_change(person, ChangeKind.RESET_ASKED, by=SIGN_IN, via=Surface.WEB, also_owed=owed)


def _may_get_one(person: User) -> bool:
    """True if a letter opens no more than its reader had: a password, or a second step.

    A person with neither comes in by an invitation, with the company, or by two operators.
    """
    has_more = person.has_usable_password() or second_steps.are_wanted(person)
    return person.is_active and bool(person.email) and has_more


def _had_enough(person: User) -> bool:
    """True if a letter went out a moment ago, or to this address as many as go out in a day."""
    of_address = User.objects.filter(email__iexact=person.email)
    chains = [chain_of(str(principal_of(each))) for each in of_address]
    asked = Event.objects.filter(
        subject__in=chains, kind=ChangeKind.RESET_ASKED, at__gt=Now() - A_DAY
    )
    own = chain_of(str(principal_of(person)))
    if asked.filter(subject=own, at__gt=Now() - SELDOM).exists():
        return True
    return asked[:MOST_A_DAY].count() >= MOST_A_DAY


class ResetLetters:
    """The delivery channel of the letters."""

    name = CHANNEL

    def wants(self, kind: str) -> bool:
        return False  # each event names its recipient

    def address(self, event: Event) -> Iterable[Owed]:
        return ()

    def send(self, delivery: Delivery) -> None:
        """Raises ``NotNow``, ``OSError`` and ``smtplib.SMTPException``."""
        key = delivery.recipient.partition(":")[2]
        person = User.objects.filter(pk=key).first()
        if person is None:
            return
        if delivery.event.kind == ChangeKind.EMAIL_CHANGED:
            old = json.loads(delivery.event.details)["edits"]["email"][0]
            with mail_server.turn():
                tell_old_address(person, old)
        elif delivery.event.kind == ChangeKind.EMAIL_ASKED:
            with mail_server.turn():
                send_address_letter(person, delivery.event)
        elif _may_get_one(person):
            with mail_server.turn():
                send_letter(person)


def _language_of(person: User) -> translation.override:
    chosen = Preferences.objects.filter(user=person).values_list("language", flat=True).first()
    return translation.override(chosen or settings.LANGUAGE_CODE)


def owed_to_old_address(person: User, old: str) -> list[tuple[str, str]]:
    """The delivery that tells whoever reads the old address that it counts no longer."""
    return [(CHANNEL, str(principal_of(person)))] if old and letters_are_possible() else []


def tell_old_address(person: User, old: str) -> None:
    """The desk tells it, too; but whoever changed it may be the one who reads that."""
    with _language_of(person):
        text = _(
            "The account %(username)s at %(address)s has another e-mail address now. If you do "
            "not know why, tell an operator at once."
        ) % {"username": person.get_username(), "address": settings.PUBLIC_URL}
        send_mail(_("Your address at Assent was changed"), text, None, [old])


def send_address_letter(person: User, event: Event) -> None:
    """To the address that the person wants: opened there, its link shows that they read it."""
    if not person.is_active:
        return
    token = signing.dumps(event.pk, salt=ADDRESS_SALT)
    at = f"{settings.PUBLIC_URL.rstrip('/')}/account/email/{token}/"
    with _language_of(person):
        text = render_to_string("registration/address_mail.txt", {"person": person, "at": at})
        wanted = json.loads(event.details)["address"]
        send_mail(_("Confirm your address at Assent"), text, None, [wanted])


def send_letter(person: User) -> None:
    """In the person's own language. A second letter ends the link of the first."""
    address = new_link(LinkPurpose.RESET, person)
    with _language_of(person):
        text = render_to_string("registration/reset_mail.txt", {"person": person, "at": address})
        send_mail(_("Choose a new password for Assent"), text, None, [person.email])
