"""Activations that end that something is signed: a person signs them with a passkey."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from ledger import seals
from ledger.events import chain_of
from ledger.seals import Link
from ledger.sign_off import passkeys
from ledger.sign_off.passkeys import KeysOf
from ledger.sign_off.rules.loosening import ends_signing
from ledger.sign_off.rules.rules import Rule, RulesRefused, read

VERDICT = "activate"


def statement_of_activation(tenant: str, says: Mapping[str, Any], nonce: str) -> dict[str, Any]:
    """The statement that whoever confirms an activation signs; ``says`` is what its event has."""
    parts = {name: says.get(name) for name in ("number", "in_place_of", "rules")}
    return {
        "tenant": tenant,
        "verdict": VERDICT,
        "rules": hashlib.sha256(seals.canonical(parts)).hexdigest(),
        "nonce": nonce,
    }


def signing_faults(link: Link, keys_of: KeysOf) -> Iterator[str]:
    """Check that a key of whoever activated these rules signed that, once."""
    statement_of = partial(statement_of_activation, link.tenant, link.says)
    yield from passkeys.event_faults(link, statement_of, keys_of)


def activation_faults(links: Sequence[Link], keys_of: KeysOf) -> Iterator[str]:
    """Check of all activations of a tenant that nobody ended signing without a signature.

    Rules without it are compared with those before again, so that what follows them needs one.
    Each goes on from the one before: so what was signed, and not used then, counts at no other
    time, and in no other tenant.
    """
    before: Sequence[Rule] = ()
    last: Any = 0
    for link in links:
        try:
            after = read(0, link.says.get("rules")).rules
        except RulesRefused:
            after = ()
        faults = [*signing_faults(link, keys_of)] if ends_signing(before, after) else []
        number = link.says.get("number")
        goes_on = type(number) is int and link.says.get("in_place_of") == last < number
        if not goes_on or link.subject != chain_of(f"rules:{link.tenant}"):
            faults.append("it does not go on from the rules before it.")
        last = number if type(number) is int else last
        yield from (f"event {link.id} of rules of {link.tenant}: {fault}" for fault in faults)
        if not faults:
            before = after
