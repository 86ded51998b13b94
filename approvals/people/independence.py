"""Whether two accounts are two people, as far as the sealed log knows.

Whoever opened an account or set its password can sign in as its person, so for a while the two
count as one. That also holds over a third account in between.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from django.contrib.auth.models import User
from django.db.models.functions import Now

from approvals.people.principals import name_of, principal_of
from ledger.errors import NotAllowed
from ledger.events import account_changes
from ledger.events.account_changes import ChangeKind
from ledger.models import Event
from ledger.principals import USERS, Principal

AFTER = timedelta(days=30)


def may_be_one(one: User, other: User) -> bool:
    """Whether somebody could sign in as both."""
    return bool(_speakers(str(principal_of(one))) & _speakers(str(principal_of(other))))


def could_speak_for(principal: str, person: User) -> bool:
    """Whether this principal could sign in as that person."""
    return principal in _speakers(str(principal_of(person)))


def require_another_person(person: User, before: Iterable[str], what: str) -> None:
    """Raises ``NotAllowed`` when one of those who said it before could sign in as this person, or
    the other way round."""
    for other in User.objects.filter(pk__in=[key for key in map(_key_of, before) if key]):
        if other.pk != person.pk and (
            could_speak_for(str(principal_of(other)), person)
            or could_speak_for(str(principal_of(person)), other)
        ):
            raise NotAllowed(
                f"{name_of(other)} has {what}, and one of you opened the account of the other or "
                f"set its password less than {AFTER.days} days ago: somebody else has to.",
                hint="Nothing was decided.",
            )


def _key_of(principal: str) -> int | None:
    return Principal.parse(principal).user_key


def _speakers(principal: str) -> set[str]:
    """It, and the people who could sign in as it; commands on the server are nobody."""
    found, new = {principal}, {principal}
    while new:
        events = Event.objects.filter(
            subject__in=[account_changes.chain_of(one) for one in new],
            kind__in=[ChangeKind.USER_CREATED, ChangeKind.PASSWORD_CHANGED],
            principal__startswith=USERS,
            at__gt=Now() - AFTER,
        )
        new = set(events.values_list("principal", flat=True)) - found
        found |= new
    return found
