"""Keys with which a person signs decisions: passkeys of theirs that were enrolled for it.

Who has a key enrols another one with it. The first one takes two operators. Either way its person
is told, and it signs once the longest waiting time of their tenants is over. The events of the
account say which keys there are; a passkey that is gone does not sign any more.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from django.contrib.auth.models import User
from django.db.transaction import atomic
from django.utils.translation import gettext as _

from approvals.models import Membership, Passkey, Role
from approvals.people.account_log import record_change
from approvals.people.principals import name_of, principal_of
from approvals.people.sign_in import begin_using_passkey, key_of, passkeys_of, use_passkey
from ledger import seals
from ledger.errors import NotAllowed, NotFound, NotPossible
from ledger.events import ChangeKind, chain_of, lock_chain
from ledger.foundation.postgres import database_now
from ledger.models import Event, Tenant
from ledger.principals import Principal, Surface
from ledger.sign_off.passkeys import (
    ASSERTION,
    KEY,
    WAITS,
    Keys,
    SigningKey,
    challenge_of,
    keys_of,
    statement_of_enrolment,
)

LONGEST_WAIT = timedelta(days=30)


class KeyState(StrEnum):
    """The use of a passkey."""

    NONE = "none"  # it signs in only
    WAITS = "waits"
    SIGNS = "signs"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Listed:
    """A passkey of a person, or a key that signed once and whose passkey is gone."""

    key: SigningKey
    state: KeyState
    passkey: Passkey | None = None

    @property
    def signs_from(self) -> datetime:
        return _time(self.key.signs_from)

    @property
    def ended_at(self) -> datetime:
        return _time(self.key.ended_at)


def enrolled(person: User) -> Keys:
    """All keys that the person ever had, by credential."""
    return keys_of(str(principal_of(person)))


def listed(person: User) -> list[Listed]:
    """The passkeys of the person, and after these the keys whose passkey is gone."""
    now, keys = int(seals.as_text(database_now())), dict(enrolled(person))
    rows = []
    for passkey in passkeys_of(person):
        own = key_of(passkey)
        key = keys.pop(own.credential, own)
        rows.append(Listed(key, _state_of(key, now, is_enrolled=key is not own), passkey))
    return [*rows, *(Listed(key, KeyState.ENDED) for key in keys.values())]


def _state_of(key: SigningKey, now: int, *, is_enrolled: bool) -> KeyState:
    if not is_enrolled:
        return KeyState.NONE
    if key.ended_at:
        return KeyState.ENDED
    return KeyState.SIGNS if key.may_sign_at(now) else KeyState.WAITS


def _time(microseconds: int) -> datetime:
    return datetime.fromtimestamp(microseconds / 1_000_000, UTC)


def that_sign(person: User) -> list[SigningKey]:
    """The keys with which the person can sign now."""
    now = int(seals.as_text(database_now()))
    return [key for key in enrolled(person).values() if key.may_sign_at(now)]


def how_many_sign(tenant: str) -> tuple[int, int]:
    """Of the managers of a tenant, those who can sign now; and all of them."""
    managers = User.objects.filter(
        memberships__tenant=tenant, memberships__role=Role.APPROVER, is_active=True
    )
    with_passkeys = managers.filter(pk__in=Passkey.objects.values("user"))
    return sum(bool(that_sign(person)) for person in with_passkeys), managers.count()


def begin_enrolling(person: User, passkey_id: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Options for the browser to sign with a key of the person that this passkey may sign as well,
    and the state that ``enrol`` takes. Raises ``NotFound, NotAllowed``.
    """
    key, own = key_of(_passkey(person, passkey_id)), that_sign(person)
    if not own:
        raise NotAllowed(
            _("You have no key yet that signs decisions."),
            hint=_("Ask an operator: two of them let a first passkey sign."),
        )
    nonce = secrets.token_urlsafe(24)
    statement = statement_of_enrolment(str(principal_of(person)), key, nonce)
    return begin_signing(person, own, statement), {"passkey": passkey_id, "nonce": nonce}


def enrol(person: User, state: Mapping[str, Any], answer: str) -> SigningKey:
    """Let a passkey sign decisions, as a key of the person signed. Raises ``NotFound,
    NotAllowed, NotPossible``.
    """
    with atomic():
        key = key_of(_passkey(person, int(state["passkey"])))
        assertion = assertion_from(person, answer, str(state["nonce"]))
        return _enrol(person, key, principal_of(person), Surface.WEB, {ASSERTION: assertion})


def check_is_ready(person: User, passkey_id: int | str) -> dict[str, Any]:
    """The change that operators ask for, of a passkey that does not sign yet.

    Raises ``NotFound, NotPossible``.
    """
    key = key_of(_passkey(person, passkey_id))
    _refuse_known(person, key)
    return {KEY: key.as_json()}


def enrol_for(person: User, after: Mapping[str, Any], by: Principal, via: Surface) -> None:
    """Enrol what two operators said. Raises ``NotPossible`` if its passkey is gone."""
    wanted = {name: text for name, text in after.items() if name != KEY}
    key = SigningKey(**after[KEY])
    if key.credential not in {key_of(row).credential for row in passkeys_of(person)}:
        raise NotPossible(_("The passkey was removed meanwhile. Nothing was changed."))
    _enrol(person, key, by, via, wanted)


def end_key(person: User, passkey_id: int | str, *, by: Principal, via: Surface) -> None:
    """Nothing is signed any more with this passkey. Raises ``NotFound``.

    It ends also when it is removed, and with every reset of how the person signs in.
    """
    with atomic():
        lock_chain(str(principal_of(person)))
        credential = key_of(_passkey(person, passkey_id)).credential
        key = enrolled(person).get(credential)
        if key is not None and not key.ended_at:
            details: dict[str, Any] = {KEY: {"credential": credential}}
            record_change(person, ChangeKind.SIGNING_KEY_ENDED, by=by, via=via, **details)


def begin_signing(
    person: User, keys: Iterable[SigningKey], statement: Mapping[str, Any]
) -> dict[str, Any]:
    """Options for the browser that signs the statement with one of these keys of the person."""
    only = [key.credential for key in keys]
    return begin_using_passkey(person, only, challenge_of(statement))[0]


def assertion_from(person: User, answer: str, nonce: str) -> dict[str, str]:
    """The browser's answer, as events keep it; the use of the key is noted.

    Raises ``NotPossible`` for what cannot be read, and for a key whose counter went back.
    """
    return {**use_passkey(person, answer), "nonce": nonce}


def _enrol(
    person: User, key: SigningKey, by: Principal, via: Surface, how: Mapping[str, Any]
) -> SigningKey:
    """The waiting time begins now. The fold of the account's events decides if it counts."""
    lock_chain(str(principal_of(person)))
    _refuse_known(person, key)  # else the log would have a fault for good
    waits_s = int(waiting_time_of(person).total_seconds())
    details = {KEY: key.as_json(), WAITS: waits_s, **how}
    record_change(person, ChangeKind.SIGNING_KEY_ENROLLED, by=by, via=via, **details)
    if key.credential not in enrolled(person):
        raise NotPossible(_("The signature does not fit. Nothing was changed."))
    return enrolled(person)[key.credential]


def _refuse_known(person: User, key: SigningKey) -> None:
    if key.credential in enrolled(person):
        raise NotPossible(_("This passkey signs decisions already, or did once: add another."))


def waiting_time_of(person: User) -> timedelta:
    """The longest that the tenants of the person ask for.

    One operator may shorten it, which counts once the time before is over.
    """
    tenants = Tenant.objects.filter(pk__in=Membership.objects.filter(user=person).values("tenant"))
    now, hours = database_now(), [0]
    for slug, current in tenants.values_list("slug", "signing_key_hours"):
        hours.append(current)
        changes = Event.objects.filter(
            subject=chain_of(f"tenant:{slug}"),
            kind=ChangeKind.TENANT_CHANGED,
            at__gt=now - LONGEST_WAIT,
            details__contains='"signing_key_hours":',
        )
        for change in changes:
            before = json.loads(change.details)["edits"]["signing_key_hours"][0]
            if change.at + timedelta(hours=before) > now:
                hours.append(before)
    return timedelta(hours=max(hours))


def _passkey(person: User, passkey_id: int | str) -> Passkey:
    own = {str(row.pk): row for row in passkeys_of(person)}
    row = own.get(str(passkey_id))
    if row is None:
        raise NotFound(_("{name} has no such passkey.").format(name=name_of(person)))
    return row
