"""Details of changes of rules, groups and grants, as the list of changes shows them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from django.utils.translation import gettext_noop

from approvals.presentation import in_words, to_the_minute
from ledger.errors import LedgerError
from ledger.events import ChangeKind
from ledger.models import Grant
from ledger.sign_off import grants, passkeys, rules
from ledger.sign_off.rules import RulesRefused, sentences

TIMES = ("starts_at", "ends_at")
MOST_SENTENCES = 12
OF_KEYS = (passkeys.ASSERTION, passkeys.WAITS)
NAMES = (
    gettext_noop("fingerprint"),
    gettext_noop("what"),
    gettext_noop("until"),
    gettext_noop("break glass"),
    gettext_noop("signed with a passkey"),
)


def readable(kind: str, details: Mapping[str, Any]) -> dict[str, Any]:
    """Of other kinds as they are; rules and grants as sentences, members by name and by day, a
    passkey by its fingerprint."""
    details = _with_fingerprint(details)
    if kind == ChangeKind.GRANT_GIVEN:
        return _grant(details)
    if kind == ChangeKind.GRANT_ENDED:
        return {"name": details["name"]}
    if not kind.startswith(("rules_", "group_")):
        return dict(details)
    shown = {name: value for name, value in details.items() if value and name != "loosens"}
    if shown.pop(passkeys.ASSERTION, None):
        shown["signed with a passkey"] = True
    if "rules" in shown:
        shown["rules"] = _sentences(shown["rules"])
    for name in TIMES:
        if name in shown:
            shown[name] = _day(str(shown[name]))
    for name in ("person", "in_place_of"):
        if f"{name}_name" in shown:
            shown[name] = shown.pop(f"{name}_name")
    return shown


def _with_fingerprint(details: Mapping[str, Any]) -> Mapping[str, Any]:
    key = details.get(passkeys.KEY)
    if not isinstance(key, dict):
        return details
    shown = {name: details[name] for name in details if name not in {passkeys.KEY, *OF_KEYS}}
    if "public_key" in key:
        shown["fingerprint"] = passkeys.SigningKey(**key).fingerprint
    return shown


def _grant(details: Mapping[str, Any]) -> dict[str, Any]:
    told = {name: details.get(name, "") for name in ("agent", "tool", "when", "budgets")}
    try:
        what = grants.sentence_of(Grant(**{**told, "when": told["when"] or {}}))
        until = datetime.fromtimestamp(int(details["ends_at"]) / 10**6, UTC)
    except (LedgerError, LookupError, ValueError):
        return dict(details)
    return {
        "name": details["name"],
        "what": in_words(what),
        "until": to_the_minute(until),
        **({"break glass": True} if details.get("is_break_glass") else {}),
    }


def _sentences(written: Any) -> Any:
    try:
        read = rules.read(0, written).rules
    except RulesRefused:
        return written
    if len(read) > MOST_SENTENCES:
        return [str(number) for number, _ in enumerate(read, 1)]
    return "; ".join(in_words(sentences.sentence_of(rule)) for rule in read)


def _day(text: str) -> str:
    """Events keep a time as microseconds since 1970."""
    if not text.isdecimal():
        return text
    return datetime.fromtimestamp(int(text) / 10**6, UTC).date().isoformat()
