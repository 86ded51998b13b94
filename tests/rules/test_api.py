"""The terms over REST: of a transaction, and before anything is proposed."""

from __future__ import annotations

import json

import pytest

from ledger.models import Transaction
from tests.rules.conftest import LARGE_TAKE_TWO, SMALL_PASS

pytestmark = pytest.mark.django_db


def terms(client, tool: str, arguments: dict, **more: str):
    return client.http.get(
        "/api/v1/terms",
        {"tool": tool, "arguments": json.dumps(arguments), **more},
        headers={"Authorization": f"Bearer {client.token}"},
    )


REFUND = {"order": "o1", "amount": "12"}


def test_without_rules_the_contract_says_who_signs(as_helpdesk):
    answer = terms(as_helpdesk, "scuttle", {"rocket": "r1"}).json()

    assert answer["sentence"] == "To be signed by 2 people, as the contract says."
    assert (answer["verdict"], answer["seats"]) == (
        "ask",
        [{"group": "approvers", "needed": 2, "widens_to": {}}],
    )
    assert (answer["rule_set"], answer["quorum"]) == (0, 2)


def test_what_only_a_plan_can_tell_never_loosens(as_helpdesk, activated):
    activated(SMALL_PASS, LARGE_TAKE_TWO)

    unknown = terms(as_helpdesk, "refund", REFUND).json()
    small = terms(as_helpdesk, "refund", REFUND, amount="12", currency="EUR").json()
    large = terms(as_helpdesk, "refund", REFUND, amount="1200", currency="EUR").json()

    assert (unknown["verdict"], unknown["quorum"]) == ("ask", 2)
    assert (small["verdict"], small["rules"]) == ("pass", [1])
    assert (large["quorum"], large["rules"]) == (2, [2])
    assert Transaction.objects.count() == 0


def test_a_transaction_says_who_has_to_sign_and_why(as_helpdesk, activated):
    activated(LARGE_TAKE_TWO)
    proposed = as_helpdesk.propose("refund", arguments={"order": "o1", "amount": "1500"}).json()

    answer = as_helpdesk.get(f"/transactions/{proposed['transaction_id']}").json()["terms"]

    assert answer["sentence"].startswith(
        "To be signed by 2 people, because of the rule: everything, of at least"
    )
    assert answer["rules"] == [1]


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ({"tool": "nothing"}, 404),
        ({"tool": "refund", "arguments": "[1]"}, 422),
        ({"tool": "refund", "arguments": "{"}, 422),
        ({"tool": "refund", "arguments": '{"order": "o"}'}, 422),
    ],
)
def test_what_cannot_be_proposed_has_no_terms(as_helpdesk, activated, query, status):
    activated(SMALL_PASS)

    headers = {"Authorization": f"Bearer {as_helpdesk.token}"}
    answer = as_helpdesk.http.get("/api/v1/terms", query, headers=headers)

    assert answer.status_code == status


def test_authzen_asks_about_the_caller_alone(as_helpdesk, activated):
    activated(SMALL_PASS)

    def evaluate(subject: str, **properties: object):
        return as_helpdesk.post(
            "/access/v1/evaluation",
            {
                "subject": {"type": "agent", "id": subject},
                "action": {"name": "propose"},
                "resource": {"type": "tool", "id": "refund", "properties": properties},
            },
        ).json()

    known = {"arguments": REFUND, "amount": "12", "currency": "EUR"}
    assert evaluate("agent:acme/helpdesk", **known)["decision"] is True
    assert evaluate("helpdesk", arguments=REFUND)["context"]["terms"]["verdict"] == "ask"
    assert evaluate("agent:acme/other", **known) == {
        "decision": False,
        "context": {"reason": "Ask whether you may propose a tool."},
    }
