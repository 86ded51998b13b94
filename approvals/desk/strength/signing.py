"""Signing a decision with a passkey: what a person signs, and what the browser answered.

The nonce of the statement is our own signed word that this person was shown this transaction. It
counts for a few minutes, and once: an event that has it stands in the transaction's history then.
"""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User
from django.core import signing
from django.utils.translation import gettext as _

from approvals.desk import seats
from approvals.people import assertion_from, begin_signing, principal_of, that_sign
from ledger.errors import InvalidRequest, NotAllowed
from ledger.models import Transaction, Verdict
from ledger.sign_off import passkeys, revisions
from ledger.states import State
from ledger.transactions import asked_by

SALT = "approvals.desk.signing"
VALID_S = 300


def begin(user: User, row: Transaction) -> dict[str, Any]:
    """Options for the browser to sign an approval of this, and the nonce. Raises ``NotAllowed``."""
    keys = that_sign(user)
    if not keys:
        raise NotAllowed(why_no_key(), hint=_("Nothing was decided."))
    nonce = signing.dumps([user.pk, str(row.pk), row.intent_digest], salt=SALT)
    return {**begin_signing(keys, _statement(row, nonce)), "nonce": nonce}


def why_no_key() -> str:
    return _("It is signed with a passkey, and you have none yet that signs decisions.")


def signed(user: User, row: Transaction, credential: str, nonce: str) -> dict[str, str] | None:
    """The browser's answer, as the decision keeps it. The ledger checks what was signed.

    ``None`` once it is decided, or this person has approved it: the ledger says so then. Raises
    ``InvalidRequest`` for a nonce that was not issued to this person for this, and what
    ``assertion_from`` raises.
    """
    by = str(principal_of(user))
    has_approved = row.decisions.filter(principal=by).exists()
    if row.state != State.PREPARED or (has_approved and not seats.may_sign_again(row, by)):
        return None
    try:
        issued = signing.loads(nonce, salt=SALT, max_age=VALID_S)
    except signing.BadSignature:
        issued = None
    if issued != [user.pk, str(row.pk), row.intent_digest]:
        raise InvalidRequest(
            _("It was signed too long ago, or something else was."),
            hint=_("Nothing was decided. Look at it again, and sign once more."),
        )
    return assertion_from(user, credential, nonce)


def may_sign(user: User) -> bool:
    """True if the person has a key that signs now."""
    return bool(that_sign(user))


def _statement(row: Transaction, nonce: str) -> dict[str, Any]:
    links = seats.links_in(row)
    return passkeys.statement_of_vote(
        row.tenant,
        str(row.pk),
        revisions.number_in(links),
        row.intent_digest,
        asked_by(links).as_json(),
        nonce,
        Verdict.APPROVE,
    )
