"""The auditors' verifier knows which settlements take two operators."""

from __future__ import annotations

import json

from examples.verify import settlement_faults

ROW = {"consequence_level": "COMPENSABLE", "risk_level": "LOW"}


def event(kind: str, principal: str, **details: object) -> dict[str, object]:
    return {
        "id": 1,
        "subject": "s",
        "kind": kind,
        "principal": principal,
        "details": json.dumps(details),
    }


def settled_alone(**first: object) -> list[str]:
    events = [event("prepared", "agent:acme/helpdesk", **first), event("committed", "user:7")]
    return list(settlement_faults(ROW, events))


def test_what_needed_two_people_is_not_settled_by_one():
    assert settled_alone(quorum=2, settled_by_two=True) == [
        "event 1 of transaction s: committed by user:7 alone."
    ]


def test_what_was_settled_before_that_rule_still_verifies():
    assert settled_alone(quorum=2) == []
