"""What was written for 0.1 is read as it was meant then (docs/compatibility.md).

What people signed names its manifest and its rules by hash.
"""

from __future__ import annotations

from ledger.contracts.contract import Contract
from ledger.models import IdempotencyKey
from ledger.sign_off.rules import rules
from ledger.tools import manifests

MANIFEST = {
    "name": "refund_invoice",
    "address": "https://billing.example",
    "description": "Refunds an invoice.",
    "arguments": {
        "type": "object",
        "additionalProperties": False,
        "required": ["invoice"],
        "properties": {"invoice": {"type": "string", "maxLength": 40}},
    },
    "routes": ["plan", "find_receipt"],
    "contract": {
        "owner_service": "billing",
        "operation_key": "refund_invoice:{tenant}:{invoice}",
        "risk_level": "HIGH",
    },
}
RULES = [
    {"when": {"tool": "refund_customer", "amount": {"below": "50 EUR"}}, "then": "pass"},
    {
        "when": {"amount": {"at_least": "1000 EUR"}, "agent": {"is_not": ["helpdesk"]}},
        "then": {"verdict": "ask", "seats": {"finance": 2}, "strength": "typed", "note": True},
        "note": "Since the audit.",
    },
]


def test_a_manifest_of_0_1_is_read_and_keeps_its_hash():
    assert manifests.read(MANIFEST).sha256 == (
        "6864e485abc4f6e6debcfa0edf3c6fce8150d04eb30280faf62ad55a64a7aa57"
    )


def test_rules_of_0_1_are_read_and_keep_their_hash():
    assert rules.digest_of(rules.Rule.model_validate(each) for each in RULES) == (
        "1db590874de712a5b22193e7248bd5650049d7a5b0dbdc06d1f2017b24b45e7f"
    )


def test_what_a_contract_leaves_out_is_as_strict_as_it_was():
    unsaid = Contract()

    assert (unsaid.risk_level, unsaid.required_approver) == ("HIGH", "HUMAN")
    assert (unsaid.consequence_level, unsaid.quorum, unsaid.floor) == ("IRREVERSIBLE", 1, "")
    assert {unsaid.retry_safe, unsaid.keeper_may_sign} == {False}
    assert unsaid.timeout.total_seconds() == 30
    assert unsaid.ttl.total_seconds() == 900
    assert unsaid.retention.days == 365 * 7


def test_a_member_that_nobody_knows_is_refused_and_not_left_out(as_helpdesk):
    answer = as_helpdesk.propose(requires_two="yes")

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "requires_two"
    assert not IdempotencyKey.objects.exists()
