"""The program of docs/frameworks.md that waits in a call, as it stands there."""

from __future__ import annotations

import json

import pytest

from ledger.models import Transaction
from tests.frameworks.conftest import said_by
from tests.frameworks.model import ANSWER, a_model

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.slow,
    pytest.mark.timeout(900),  # the first test of each installs its packages
]


@pytest.fixture
def claude(program):
    found = program("frameworks.md", "Claude Agent SDK", "claude_agent_sdk")
    with a_model() as address:
        found.environment |= {
            "ANTHROPIC_BASE_URL": address,
            "ANTHROPIC_API_KEY": "sk-ant-test",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        }
        yield lambda: found.start("Refund Ana's lamp.")


def ended(process):
    return json.loads(said_by(process, 90))


def test_the_model_is_told_what_people_decided_and_what_they_asked(claude, person, product):
    process = claude()
    person.rejects("Paid before.")
    refused = ended(process)
    process = claude()
    person.lets_it_expire()
    late = ended(process)
    process = claude()
    person.asks("Where are the photos?")
    assert person.reads_the_answer() == ANSWER
    person.approves()
    approved = ended(process)

    said = [one["status"] for one in (refused, late, approved)]
    assert said == ["refused", "expired", "succeeded"]
    assert (refused["reason"], refused["do_not_retry"]) == ("Paid before.", True)
    assert approved["receipt"] == Transaction.objects.get(state="committed").receipt
    assert product.effects()["total"] == 1
