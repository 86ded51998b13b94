"""Signing with a passkey: what a person signs, and what the browser answered.

The nonce of each statement is our own signed word of what it is about, which this person was shown.
It counts for a few minutes, and once: an event that has it stands in the history then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from django.contrib.auth.models import User
from django.core import signing
from django.utils.translation import gettext as _

from approvals.desk import seats
from approvals.people import (
    KeyState,
    assertion_from,
    begin_signing,
    listed,
    principal_of,
    that_sign,
)
from approvals.presentation import to_the_minute
from ledger.errors import InvalidRequest, NotAllowed
from ledger.models import Transaction, Verdict
from ledger.states import State
from ledger.transactions import statement_of

SALT = "approvals.desk.signing"
VALID_S = 300


def options_for(
    user: User, about: Sequence[str], statement_of: Callable[[str], Mapping[str, Any]]
) -> dict[str, Any]:
    """Options for the browser to sign the statement with this nonce, and the nonce.

    ``{"publicKey": {…}, "nonce": "…"}``. Raises ``NotAllowed``.
    """
    keys = that_sign(user)
    if not keys:
        raise NotAllowed(why_no_key(user), hint=_("Nothing was decided."))
    nonce = signing.dumps([user.pk, *about], salt=SALT)
    return {**begin_signing(user, keys, statement_of(nonce)), "nonce": nonce}


def why_no_key(user: User) -> str:
    """The reason that the person cannot sign now, and what it takes."""
    rows = listed(user)
    waiting = [row.signs_from for row in rows if row.state == KeyState.WAITS]
    if waiting:
        at = to_the_minute(min(waiting))
        return _("It takes a passkey that signs. Yours signs from {at}.").format(at=at)
    if any(row.state == KeyState.NONE for row in rows):
        return _("It takes a passkey that signs. Two operators have to let yours sign first.")
    if rows:
        return _(
            "It takes a passkey that signs. Yours does not any more: add another; two operators "
            "let it sign."
        )
    return _("It takes a passkey that signs. Add one; two operators let it sign.")


def answer_to(
    user: User, about: Sequence[str], credential: str, nonce: str
) -> tuple[dict[str, str], list[str]]:
    """The browser's answer, as events keep it, and what its nonce was issued for beside this. The
    ledger checks what was signed.

    Raises ``InvalidRequest`` for a nonce that was not issued to this person for this, and what
    ``assertion_from`` raises.
    """
    try:
        issued = signing.loads(nonce, salt=SALT, max_age=VALID_S)
    except signing.BadSignature:
        issued = []
    known = [user.pk, *about]
    if issued[: len(known)] != known:
        raise InvalidRequest(
            _("It was signed too long ago, or something else was."),
            hint=_("Nothing was decided. Look at it again, and sign once more."),
        )
    return assertion_from(user, credential, nonce), issued[len(known) :]


def begin(
    user: User, row: Transaction, verdict: str = Verdict.APPROVE, receipt: str = ""
) -> dict[str, Any]:
    """Options for the browser to sign an approval of this, and the nonce; or an operator's word,
    with the outcome as ``verdict``. Raises ``NotAllowed``.
    """
    says = {"intent_digest": row.intent_digest, "verdict": verdict, "receipt": receipt}
    return options_for(user, about(row, verdict), partial(statement_of, says, seats.links_in(row)))


def signed(user: User, row: Transaction, credential: str, nonce: str) -> dict[str, str] | None:
    """The browser's answer, of an approval of this. Raises what ``answer_to`` raises.

    ``None`` without one; and once it is decided, or this person has approved it: the ledger says so
    then.
    """
    by = str(principal_of(user))
    if not credential or row.state != State.PREPARED:
        return None
    if row.decisions.filter(principal=by).exists() and not seats.may_sign_again(row, by):
        return None
    return signed_word(user, row, Verdict.APPROVE, credential, nonce)


def signed_word(
    user: User, row: Transaction, verdict: str, credential: str, nonce: str
) -> dict[str, str] | None:
    """The browser's answer, of this outcome of it; ``None`` without one. Raises what ``answer_to``
    raises.
    """
    return answer_to(user, about(row, verdict), credential, nonce)[0] if credential else None


def about(row: Transaction, verdict: str = Verdict.APPROVE) -> list[str]:
    """The subject of a nonce: this verdict on this transaction as it is."""
    return [str(verdict), str(row.pk), row.intent_digest]
