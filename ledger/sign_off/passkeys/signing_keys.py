"""Signing keys of people: folded from the events of their account, which nobody can change.

A key is enrolled by its person, with a key that they have, or by two operators; it signs once a
waiting time is over, in which its person is told, and until it ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from django.db.models import Q

from ledger import seals
from ledger.events import ChangeKind, chain_of
from ledger.models import Event
from ledger.principals import Principal
from ledger.seals import Link
from ledger.sign_off.passkeys.assertions import (
    ASSERTION,
    UNREADABLE,
    SigningKey,
    assertion_faults,
    public_key_of,
)

ENROLLED = ChangeKind.SIGNING_KEY_ENROLLED
# A key ends with its passkey, too, and with all ways in that its person has.
ENDINGS = (ChangeKind.SIGNING_KEY_ENDED, ChangeKind.PASSKEY_REMOVED, ChangeKind.ACCESS_RESET)
KINDS = (ENROLLED, *ENDINGS, ChangeKind.CHANGE_REQUESTED)
# In the details of these: the key. Its ``credential`` alone where it ends.
KEY = "key"
WAITS = "waits_s"  # seconds until a new one may sign
# By credential, the keys that a principal had before this event.
Keys = Mapping[str, SigningKey]
KeysOf = Callable[[str, int], Keys]


def keys_of(principal: str, before: int = 0) -> Keys:
    """The keys of this principal, by its events with an id below ``before``; 0: by all."""
    rows = Event.objects.filter(subject=chain_of(principal), kind__in=KINDS)
    if before:
        rows = rows.filter(pk__lt=before)
    return folded([Link(*values) for values in rows.order_by("seq").values_list(*Link._fields)])


def folded(links: Iterable[Link]) -> Keys:
    """The keys after these events of an account. One that was not enrolled rightly is none."""
    keys: dict[str, SigningKey] = {}
    asked: list[Link] = []
    for link in links:
        if link.kind == ENROLLED and not [*enrolment_faults(link, keys, asked)]:
            key = _key_in(link)
            assert key is not None
            keys[key.credential] = key
        elif link.kind in ENDINGS:
            ended = keys if link.kind == ChangeKind.ACCESS_RESET else [_credential_in(link)]
            for credential in [each for each in ended if each in keys]:
                if not keys[credential].ended_at:
                    at = int(seals.as_text(link.at))
                    keys[credential] = replace(keys[credential], ended_at=at)
        elif link.kind == ChangeKind.CHANGE_REQUESTED:
            asked.append(link)
    return keys


def enrolment_faults(link: Link, keys: Keys, asked: Iterable[Link]) -> Iterator[str]:
    """Check that a key of the person signed the new one, or that two operators said the same.

    ``keys`` are those before, ``asked`` the changes of the account that were asked for.
    """
    key = _key_in(link)
    if key is None or key.credential in keys:
        yield "it enrols no key, or one for the second time."
        return
    is_own = chain_of(link.principal) == link.subject
    if ASSERTION in link.says:
        if not is_own:
            yield "somebody else than the person enrolled its key with one of theirs."
        assertion = link.says[ASSERTION]
        statement = statement_of_enrolment(link.principal, key, nonce_of(assertion))
        yield from signature_faults(assertion, statement, keys, link.at)
        return
    by, first = Principal.parse(link.principal), link.says.get("asked_by")
    wanted = (first, ENROLLED, key.as_json())
    is_asked = wanted in [(e.principal, e.says.get("change"), e.says.get(KEY)) for e in asked]
    if not by.is_user or is_own or first == link.principal or not is_asked:
        yield "no two operators enrolled its key."


def nonce_of(assertion: Any) -> str:
    return str(assertion.get("nonce")) if isinstance(assertion, Mapping) else ""


def signature_faults(
    assertion: Any, statement: Mapping[str, Any], keys: Keys, at: datetime
) -> Iterator[str]:
    """Check that one of these keys, which its maker had then, signed the statement."""
    named = assertion.get("credential") if isinstance(assertion, Mapping) else None
    key = keys.get(str(named))
    if key is None or not key.may_sign_at(int(seals.as_text(at))):
        yield "it is signed with no key with which its maker could sign then."
        return
    yield from assertion_faults(assertion, statement, key)


def event_faults(
    link: Link, statement_of: Callable[[str], Mapping[str, Any]], keys_of: KeysOf
) -> Iterator[str]:
    """Check that its principal signed the statement with its nonce, for no event of its kind
    before.
    """
    assertion = link.says.get(ASSERTION)
    nonce, keys = nonce_of(assertion), keys_of(link.principal, link.id)
    yield from signature_faults(assertion, statement_of(nonce), keys, link.at)
    earlier = Event.objects.filter(
        # In JSON a text can be written in escapes, too.
        Q(details__contains=seals.canonical(nonce).decode()) | Q(details__contains="\\u"),
        kind=link.kind,
        to_state="",
        principal=link.principal,
        pk__lt=link.id,
    )
    before = [Link(*values).says.get(ASSERTION) for values in earlier.values_list(*Link._fields)]
    if nonce in [nonce_of(each) for each in before if each is not None]:
        yield "what was signed counted before."


def statement_of_enrolment(principal: str, key: SigningKey, nonce: str) -> dict[str, Any]:
    """The statement that a person signs with a key of theirs, so that another one may sign."""
    return {"account": principal, "verdict": "enrol", "key": key.as_json(), "nonce": nonce}


def _key_in(link: Link) -> SigningKey | None:
    sealed: Any = link.says.get(KEY)
    waits_s: Any = link.says.get(WAITS)
    try:
        signs_from = int(seals.as_text(link.at)) + max(0, waits_s) * 1_000_000
        key = SigningKey(**sealed, signs_from=signs_from)
        public_key_of(key)
    except UNREADABLE:
        return None
    is_text = all(isinstance(each, str) for each in sealed.values())
    return key if is_text and key.as_json() == sealed and type(waits_s) is int else None


def _credential_in(link: Link) -> str:
    key = link.says.get(KEY)
    return str(key.get("credential")) if isinstance(key, dict) else ""
