"""Facts of an agent's choosing: what is written otherwise escapes no rule."""

from __future__ import annotations

import pytest

from examples import verify as second
from ledger.errors import DeniedByRule, LedgerError
from ledger.proof.log import checkpoints
from ledger.sign_off.rules import failing_cases, from_yaml, read
from ledger.tools import contracts_of
from tests.conftest import propose
from tests.permits.conftest import register
from tests.rules.test_proof import faults_of_both

pytestmark = pytest.mark.django_db


@pytest.fixture
def wipe(acme, helpdesk):
    """A described tool with a number among its arguments."""

    def made(kind: str) -> None:
        register(
            acme,
            name="wipe",
            arguments={
                "type": "object",
                "additionalProperties": False,
                "required": ["account", "n"],
                "properties": {"account": {"type": "string"}, "n": {"type": kind}},
            },
            contract={"operation_key": "wipe:{tenant}:{account}"},
        )

    return made


@pytest.mark.parametrize("kind", ["integer", "number"])
def test_a_number_written_otherwise_does_not_escape_a_denial(activated, wipe, kind):
    wipe(kind)
    activated({"when": {"tool": "wipe", "arguments.n": "100"}, "then": "deny"})

    for account, n in (("a", 100), ("b", 100.0)):
        with pytest.raises(DeniedByRule):
            propose("wipe", account=account, n=n)


@pytest.mark.parametrize("sent", ["100.0", "1e2"])
def test_an_amount_in_an_argument_does_not_escape_either(activated, a_transaction, sent):
    activated({"when": {"tool": "refund", "arguments.amount": "100"}, "then": "deny"})

    with pytest.raises(DeniedByRule):
        a_transaction("refund", order="o1", amount=sent)


def test_letters_of_another_width_do_not_escape(activated, a_transaction):
    activated({"when": {"tool": "refund", "arguments.country": "DE"}, "then": "deny"})

    with pytest.raises(DeniedByRule):
        a_transaction("refund", order="o1", amount="5", country="\uff24\uff25")


def test_a_number_that_the_database_writes_otherwise_is_judged_as_it_is_stored(activated, wipe):
    """PostgreSQL keeps -0.0 as 0.0, and 1e15 with all its digits."""
    wipe("number")
    activated(
        {
            "when": {"tool": "wipe", "arguments.n": {"is": ["0", "1000000000000000"]}},
            "then": {"verdict": "ask", "note": True},
        }
    )

    for account, n in (("a", -0.0), ("b", 1e15)):
        assert propose("wipe", account=account, n=n).terms["rules"] == [1]
    checkpoints.make()
    assert faults_of_both() == ([], [])


def test_a_number_of_endless_digits_is_compared_at_once():
    [rule] = read(1, [{"when": {"arguments.n": "1e999999"}, "then": "deny"}]).rules

    assert rule.tests()


@pytest.mark.parametrize("limit", ["50 EUR ", " 50 EUR"])
def test_the_second_verifier_reads_every_limit_that_can_be_activated(limit):
    written = read(1, [{"when": {"amount": {"below": limit}}, "then": "pass"}]).rules
    row = {"amount": "20", "currency": "EUR", "risk_level": "LOW", "proposed_by": "agent:acme/h"}
    row |= {"consequence_level": "REVERSIBLE", "tool": "refund", "arguments": {}}
    rules_ = [rule.as_json() for rule in written]
    assert second.judged(rules_, row, {"seats": {"approvers": 1}}, {})[0] == [1]


@pytest.mark.parametrize("given", ["{tool: refund, amount: 1}", "{tool: refund, arguments: 5}"])
def test_a_case_that_makes_no_sense_is_refused_in_words(acme, given):
    rules = "rules: [{when: {arguments.a: b}, then: deny}]"
    text = f"{rules}\ncases:\n - given: {given}\n   then: pass"
    written, cases = from_yaml(text)
    with pytest.raises(LedgerError):
        [*failing_cases(written, cases, contracts_of("acme"))]
