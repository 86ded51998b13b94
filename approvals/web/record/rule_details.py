"""Details of changes of rules and groups, as the list of changes shows them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from approvals.presentation import in_words
from ledger.sign_off import rules
from ledger.sign_off.rules import RulesRefused, sentences

TIMES = ("starts_at", "ends_at")
MOST_SENTENCES = 12


def readable(kind: str, details: Mapping[str, Any]) -> dict[str, Any]:
    """Of other kinds as they are; rules as sentences, members by name and by day."""
    if not kind.startswith(("rules_", "group_")):
        return dict(details)
    shown = {name: value for name, value in details.items() if value and name != "loosens"}
    if "rules" in shown:
        shown["rules"] = _sentences(shown["rules"])
    for name in TIMES:
        if name in shown:
            shown[name] = _day(str(shown[name]))
    for name in ("person", "in_place_of"):
        if f"{name}_name" in shown:
            shown[name] = shown.pop(f"{name}_name")
    return shown


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
