"""Grants that were given with a passkey: by these alone is signed in advance what has to be signed.

The giver signs the digest of what the event of the grant says, so that a grant with another bound
or another end is no grant of theirs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.db.transaction import atomic

from ledger import seals
from ledger.errors import LedgerError
from ledger.events import ChangeKind, chain_of, lock_chain
from ledger.models import Event, Grant
from ledger.principals import Principal, Surface
from ledger.seals import EPOCH, MICROSECOND, Link
from ledger.sign_off import passkeys
from ledger.sign_off.grants.grants import SEALED, Wanted, covers, give, lock_tenant, sealed_parts
from ledger.sign_off.rules import facts_of

SIGNED = "signed_in_advance"  # in the event of a vote by such a grant
VERDICT = "grant"
TOLERANCE = timedelta(minutes=1)


def statement_of_grant(grant: Grant, nonce: str) -> dict[str, Any]:
    """The statement that the giver of a grant signs, which need not be stored yet."""
    return _statement(grant.tenant, sealed_parts(grant), seals.digest_of_text(grant.why), nonce)


def give_signed(
    wanted: Wanted, until: datetime, assertion: Mapping[str, str], *, by: Principal, via: Surface
) -> Grant:
    """One person signs in advance with a passkey; it ends at ``until``, as they signed.

    Raises what ``give`` raises, and ``NotAllowed`` for what no key of theirs signed.
    """
    with atomic():
        lock_tenant(wanted.tenant)  # first, as who confirms a change of their keys holds it first
        lock_chain(str(by))  # until it is committed none of their keys ends
        sealed = {passkeys.ASSERTION: passkeys.checked(assertion)}
        grant = give(wanted, by=by, via=via, until=until, sealed=sealed)
        link = _given(grant.pk)
        passkeys.refuse(["its event is missing."] if link is None else giving_faults(link))
    return grant


def is_signed(grant: Grant) -> bool:
    """True if it was given with a passkey."""
    link = _given(grant.pk)
    return link is not None and passkeys.ASSERTION in link.says


def giving_faults(link: Link) -> Iterator[str]:
    """Check that a key of the giver signed, once, the grant that this event gave."""
    giver = str(link.says.get("given_by"))
    if link.principal != giver:
        yield "somebody else gave it."
    statement_of = partial(_statement, link.tenant, link.says, link.reason_digest)
    yield from passkeys.event_faults(link, statement_of, passkeys.keys_of)


def signed_vote_faults(vote: Link, row: Any | None) -> Iterator[str]:
    """Check that the grant by which this vote says it was signed in advance was given so, and that
    it was live then and covers what was signed. ``row`` has that, where it is known.
    """
    named = vote.says.get("grant")
    number = named if type(named) is int else 0  # which none has
    link = _given(number)
    if link is None or link.id > vote.id or link.says.get("given_by") != vote.principal:
        yield f"{vote.principal} gave no grant that signs it."
        return
    faults = [*giving_faults(link)]
    ended = Event.objects.filter(
        subject=link.subject, kind=ChangeKind.GRANT_ENDED, pk__lt=vote.id, pk__gt=link.id
    )
    try:
        grant = as_given(number, link)
        if ended.exists() or vote.at > grant.ends_at + TOLERANCE:
            faults.append("it had ended.")
        if row is not None and not _is_about(grant, row):
            faults.append("it does not cover what it signs.")
    except (LedgerError, LookupError, TypeError, ValueError, ArithmeticError):
        faults.append("it cannot be read.")
    yield from (f"its grant {number}: {fault}" for fault in faults)


def as_given(number: int, link: Link) -> Grant:
    """The grant of this number as the event that gave it has it; it is not stored.

    Raises ``LookupError, TypeError, ValueError, ArithmeticError`` for one that cannot be read.
    """
    says = link.says
    return Grant(
        pk=number,
        tenant=link.tenant,
        why=link.reason,
        given_by_name=link.principal_name,
        transaction_id=says.get("transaction"),
        **{name: says[name] for name in SEALED if name in says},
        ends_at=EPOCH + int(says["ends_at"]) * MICROSECOND,
    )


def _is_about(grant: Grant, row: Any) -> bool:
    is_same = (grant.tenant, grant.agent, grant.tool) == (row.tenant, row.proposed_by, row.tool)
    if not is_same or row.evidence or grant.is_break_glass:
        return False
    return row.content_erased_at is not None or covers(grant, facts_of(row), row.warnings)


def _given(number: int) -> Link | None:
    rows = Event.objects.filter(
        subject=chain_of(f"grant:{number}"), kind=ChangeKind.GRANT_GIVEN, to_state=""
    )
    values = rows.order_by("seq").values_list(*Link._fields).first()
    return None if values is None else Link(*values)


def _statement(
    tenant: str, says: Mapping[str, Any], reason_digest: str, nonce: str
) -> dict[str, Any]:
    names = (*SEALED, "transaction", "ends_at")
    parts = {name: says[name] for name in names if name in says} | {"reason_digest": reason_digest}
    return {
        "tenant": tenant,
        "transaction": says.get("transaction", ""),
        "verdict": VERDICT,
        "grant": hashlib.sha256(seals.canonical(parts)).hexdigest(),
        "nonce": nonce,
    }
