"""Separation of duties: whether two accounts belong to two people, as far as the log shows.

Who creates an account, sets its password or its e-mail address, or makes a link to it, can sign in
to it. For ``WINDOW`` after that, both
accounts count as one person; this is transitive over further accounts.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from django.contrib.auth.models import User
from django.db.models.functions import Now
from django.utils.translation import gettext as _

from approvals.people.principals import name_of, principal_of
from ledger.errors import NotAllowed
from ledger.events import ChangeKind, chain_of
from ledger.models import ChangeRequest, Event
from ledger.principals import USERS, Principal

WINDOW = timedelta(days=30)
# Whoever did one of these to an account could sign in to it: also by a link that is sent to the
# e-mail address which they entered.
LETS_IN = (
    ChangeKind.USER_CREATED,
    ChangeKind.PASSWORD_CHANGED,
    ChangeKind.EMAIL_CHANGED,
    ChangeKind.PERSON_INVITED,
    ChangeKind.ACCESS_RESET,
)


def may_be_same_person(first: User, second: User) -> bool:
    """True if somebody could sign in to both accounts."""
    users_of_first = _possible_users(str(principal_of(first)))
    return bool(users_of_first & _possible_users(str(principal_of(second))))


def could_sign_in_as(principal: str, person: User) -> bool:
    """True if this principal could sign in to the account of that person."""
    return principal in _possible_users(str(principal_of(person)))


def maker_of_link(person: User) -> str:
    """The person who lately made the newest link into this account; empty if no person did."""
    chain = chain_of(str(principal_of(person)))
    made = Event.objects.filter(
        subject=chain,
        kind__in=[ChangeKind.PERSON_INVITED, ChangeKind.ACCESS_RESET],
        principal__startswith=USERS,
        at__gt=Now() - WINDOW,
    ).last()
    return made.principal_name if made is not None else ""


def require_another_person(person: User, earlier: Iterable[str], deed: str) -> None:
    """Raises ``NotAllowed`` if one of the earlier principals could sign in as this person, or the
    other way round. ``deed`` is a sentence of what ``{name}``, the other one, has done."""
    for other in User.objects.filter(pk__in=[key for key in map(_key_of, earlier) if key]):
        if other.pk != person.pk and (
            could_sign_in_as(str(principal_of(other)), person)
            or could_sign_in_as(str(principal_of(person)), other)
        ):
            raise NotAllowed(
                _(
                    "{deed} One of you opened the account of the other or set its password less "
                    "than {days} days ago: somebody else has to."
                ).format(deed=deed.format(name=name_of(other)), days=WINDOW.days),
                hint=_("Nothing was decided."),
            )


def check_second_operator(request: ChangeRequest, by: Principal) -> None:
    """Raises ``NotAllowed`` where who confirms a change could be the person who asked for it."""
    if by.user_key is not None:
        person = User.objects.get(pk=by.user_key)
        require_another_person(person, [request.asked_by], _("{name} has asked for this change."))


def _key_of(principal: str) -> int | None:
    return Principal.parse(principal).user_key


def _possible_users(principal: str) -> set[str]:
    """The principal and every person who could sign in as it, without commands on the server."""
    users, new = {principal}, {principal}
    while new:
        events = Event.objects.filter(
            subject__in=[chain_of(user) for user in new],
            kind__in=LETS_IN,
            principal__startswith=USERS,
            at__gt=Now() - WINDOW,
        )
        new = set(events.values_list("principal", flat=True)) - users
        users |= new
    return users
