"""A person's own e-mail address: another one counts once its reader has opened the link sent to it.

The request is a sealed event. Its link is signed, and good while no later event asks for or sets an
address; so it works once.
"""

from __future__ import annotations

import json
from datetime import timedelta

from django.contrib.auth.models import User
from django.core import signing
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.db.transaction import atomic
from django.utils.translation import gettext as _

from approvals.people import accounts, reset_letters
from approvals.people.account_log import record_own
from approvals.people.principals import principal_of
from ledger.errors import NotPossible
from ledger.events import ChangeKind, chain_of
from ledger.models import Event
from ledger.principals import Surface

A_DAY, MOST_A_DAY = timedelta(days=1), 5  # letters that one person can have sent


def ask_for_address(person: User, address: str) -> None:
    """Have a letter with a link sent to the new address. Raises ``NotPossible``."""
    with atomic():
        User.objects.select_for_update().get(pk=person.pk)
        asked = _events(person).filter(kind=ChangeKind.EMAIL_ASKED, at__gt=Now() - A_DAY)
        if asked[:MOST_A_DAY].count() >= MOST_A_DAY:
            raise NotPossible(_("Too many letters were sent for you today. Try again tomorrow."))
        letter = (reset_letters.CHANNEL, str(principal_of(person)))
        record_own(person, ChangeKind.EMAIL_ASKED, also_owed=[letter], address=address)


def address_asked_with(token: str, person: User) -> str:
    """The address that this link confirms for this person. Raises ``NotPossible``."""
    try:
        key = signing.loads(
            token, salt=reset_letters.ADDRESS_SALT, max_age=reset_letters.ADDRESS_VALID
        )
    except signing.BadSignature:
        raise NotPossible(_("The link has lapsed or is damaged. Ask for a new one.")) from None
    newest = _events(person).order_by("-pk").first()
    if newest is None or newest.pk != key or newest.kind != ChangeKind.EMAIL_ASKED:
        raise NotPossible(_("This link is not for you, or not any more. Nothing was changed."))
    return str(json.loads(newest.details)["address"])


def confirm_address(token: str, person: User) -> None:
    """The new address counts from now on, and the old one is told. Raises ``NotPossible``."""
    with atomic():
        row = User.objects.select_for_update().get(pk=person.pk)
        address = address_asked_with(token, row)
        labels = {label: getattr(row, label) for label in accounts.LABELS}
        row.email = address
        row.save(update_fields=["email"])
        accounts.relabelled(row, labels, by=principal_of(row), via=Surface.WEB)


def _events(person: User) -> QuerySet[Event]:
    """Requests and changes of the person's address."""
    chain = chain_of(str(principal_of(person)))
    kinds = [ChangeKind.EMAIL_ASKED, ChangeKind.EMAIL_CHANGED]
    return Event.objects.filter(subject=chain, kind__in=kinds)
