"""Keys as both verifiers fold them from the events of an account, and rules that end signing."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from fido2 import cbor
from fido2.cose import ES256
from fido2.utils import sha256, websafe_encode

from examples import verify as second
from ledger.events import chain_of
from ledger.seals import Link, as_text
from ledger.sign_off import passkeys, rules
from ledger.sign_off.rules.loosening import ends_signing

ALICE, OLGA, OTTO = "user:1", "user:2", "user:3"
AT = datetime(2026, 1, 1, tzinfo=UTC)
US = int(as_text(AT))
FIRST, OTHER = (ec.derive_private_key(number, ec.SECP256R1()) for number in (7, 8))


def key(name: bytes = b"first", private: Any = FIRST) -> dict[str, str]:
    public_key = dict(ES256.from_cryptography_key(private.public_key()))
    return {
        "credential": websafe_encode(name),
        "public_key": websafe_encode(cbor.encode(public_key)),
        "rp_id": "localhost",
        "origin": "http://localhost",
    }


def asked(by: str = OLGA, change: str = "signing_key_enrolled", of: Any = None) -> Any:
    return "change_requested", by, {"change": change, "key": of or key()}


def enrolled(by: str = OTTO, first: str = OLGA, of: Any = None, waits_s: int = 0) -> Any:
    return "signing_key_enrolled", by, {"key": of or key(), "waits_s": waits_s, "asked_by": first}


def ended(kind: str = "signing_key_ended") -> Any:
    return kind, ALICE, {"key": {"credential": key()["credential"]}}


def by_own(by: str = ALICE, private: Any = FIRST) -> Any:
    """Another key, as the first one signs it."""
    another = key(b"second", OTHER)
    statement = {"account": by, "verdict": "enrol", "key": another, "nonce": "n"}
    client = json.dumps(
        {
            "type": "webauthn.get",
            "challenge": websafe_encode(passkeys.challenge_of(statement)),
            "origin": "http://localhost",
        }
    ).encode()
    data = sha256(b"localhost") + b"\5\0\0\0\0"
    assertion = {
        "credential": key()["credential"],
        "authenticator_data": websafe_encode(data),
        "client_data": websafe_encode(client),
        "signature": websafe_encode(private.sign(data + sha256(client), ec.ECDSA(SHA256()))),
        "nonce": "n",
    }
    said = {"key": another, "waits_s": 0, "assertion": assertion}
    return "signing_key_enrolled", by, said


def folded_by_both(*events: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """By credential: the public key, from when it signs, if it has ended. A second apart."""
    links = [
        Link(
            **dict.fromkeys(Link._fields, ""),
        )._replace(
            id=number,
            seq=number,
            subject=chain_of(ALICE),
            kind=kind,
            principal=by,
            details=json.dumps(says),
            at=datetime.fromtimestamp(US / 10**6 + number, UTC),
        )
        for number, (kind, by, says) in enumerate(events)
    ]
    rows = [
        {name: getattr(link, name) for name in ("id", "kind", "principal", "details")}
        | {"subject": str(link.subject), "at": as_text(link.at)}
        for link in links
    ]
    ours = {
        name: (each.public_key, each.signs_from - US, bool(each.ended_at))
        for name, each in passkeys.folded(links).items()
    }
    theirs = {
        name: (each["public_key"], each["from"] - US, each["has_ended"])
        for name, each in second.keys_after(rows)[0].items()
    }
    return ours, theirs


def of_first(begins_s: int, has_ended: bool = False) -> dict[str, Any]:
    own = key()
    return {own["credential"]: (own["public_key"], begins_s * 10**6, has_ended)}


BY_TWO = (asked(), enrolled())
HISTORIES: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "two operators": (BY_TWO, of_first(1)),
    "its person asked, and an operator confirmed": (
        (asked(by=ALICE), enrolled(first=ALICE)),
        of_first(1),
    ),
    "it waits": ((asked(), enrolled(waits_s=60)), of_first(61)),
    "it waits less than no time": ((asked(), enrolled(waits_s=-60)), of_first(1)),
    "one operator": ((asked(by=OTTO), enrolled(first=OTTO)), {}),
    "its person confirmed": ((asked(), enrolled(by=ALICE)), {}),
    "the system confirmed": ((asked(), enrolled(by="system:worker")), {}),
    "nobody asked": ((enrolled(),), {}),
    "asked later": ((enrolled(), asked()), {}),
    "another asked": ((asked(by=ALICE), enrolled()), {}),
    "asked for something else": ((asked(change="role_granted"), enrolled()), {}),
    "asked for another key": ((asked(of=key(private=OTHER)), enrolled()), {}),
    "enrolled twice": ((*BY_TWO, asked(), enrolled(waits_s=60)), of_first(1)),
    "ended": ((*BY_TWO, ended()), of_first(1, True)),
    "its passkey removed": ((*BY_TWO, ended("passkey_removed")), of_first(1, True)),
    "access reset": ((*BY_TWO, ("access_reset", OLGA, {})), of_first(1, True)),
    "ended and enrolled again": ((*BY_TWO, ended(), asked(), enrolled()), of_first(1, True)),
    "by somebody else with it": ((*BY_TWO, by_own(by=OTTO)), of_first(1)),
    "by another key than it says": ((*BY_TWO, by_own(private=OTHER)), of_first(1)),
    "by no key of the person": ((by_own(),), {}),
    "by a key that waits": ((asked(), enrolled(waits_s=60), by_own()), of_first(61)),
    "by a key that has ended": ((*BY_TWO, ended(), by_own()), of_first(1, True)),
}


@pytest.mark.parametrize("history", HISTORIES)
def test_both_verifiers_know_the_same_keys(history: str) -> None:
    events, wanted = HISTORIES[history]

    assert folded_by_both(*events) == (wanted, wanted)


def test_a_key_of_the_person_enrols_another_one() -> None:
    ours, theirs = folded_by_both(*BY_TWO, by_own())

    assert ours == theirs
    assert len(ours) == 2


# --- rules that end that something is signed ------------------------------------------------------


def rule(when: Any = None, verdict: str = "ask", **then: Any) -> dict[str, Any]:
    return {"when": when or {"tool": "refund"}, "then": {"verdict": verdict, **then}}


SIGNED = rule(strength="passkey")
BY_FINANCE = rule(strength="passkey", seats={"finance": 1})
LATER = {"to": "approvers", "after_minutes": 60}
LARGE = {"tool": "refund", "amount": {"at_least": "50 EUR"}}
PAIRS: dict[str, tuple[list[Any], list[Any], bool]] = {
    "of anything": ([{"then": SIGNED["then"]}], [SIGNED], True),
    "the same": ([SIGNED], [SIGNED], False),
    "one more": ([SIGNED], [rule(), SIGNED], False),
    "none": ([SIGNED], [], True),
    "a click": ([SIGNED], [rule()], True),
    "typed": ([SIGNED], [rule(strength="typed")], True),
    "never signed": ([rule(strength="typed")], [], False),
    "denied": ([SIGNED], [rule(verdict="deny")], True),
    "passes as well": ([SIGNED], [SIGNED, rule(verdict="pass")], False),
    "more of it": ([rule(LARGE, strength="passkey")], [SIGNED], False),
    "less of it": ([SIGNED], [rule(LARGE, strength="passkey")], True),
    "of another tool": ([SIGNED], [rule({"tool": "launch"}, strength="passkey")], True),
    "by two": ([SIGNED], [rule(strength="passkey", seats={"approvers": 2})], False),
    "by one again": ([rule(strength="passkey", seats={"approvers": 2})], [SIGNED], True),
    "without a note": ([rule(strength="passkey", note=True)], [SIGNED], True),
    "widened": (
        [BY_FINANCE],
        [{**BY_FINANCE, "then": BY_FINANCE["then"] | {"widen": LATER}}],
        True,
    ),
    "by others, later, of more": (
        [rule(LARGE, strength="passkey", seats={"finance": 1}, widen=LATER)],
        [rule(strength="passkey", seats={"finance": 1}, widen=LATER)],
        True,
    ),
}


@pytest.mark.parametrize("pair", PAIRS)
def test_both_verifiers_know_the_same_rules_that_end_signing(pair: str) -> None:
    *written, wanted = PAIRS[pair]
    before, after = (rules.read(0, each).rules for each in written)

    as_kept = [[rule.as_json() for rule in each] for each in (before, after)]
    assert (ends_signing(before, after), second.ends_signing(*as_kept)) == (wanted, wanted)
