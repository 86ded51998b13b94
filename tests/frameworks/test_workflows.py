"""The programs of docs/workflows.md, as they stand there, in engines that are killed meanwhile."""

from __future__ import annotations

import ast
import os

import pytest

from ledger.models import Transaction
from tests.frameworks.conftest import said_by
from tests.frameworks.relay import between

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.slow,
    pytest.mark.timeout(900),  # the first test of each installs its packages
]


@pytest.fixture
def dbos(program, product):
    found = program("workflows.md", "DBOS", "dbos")
    address = os.environ["DATABASE_URL"].replace("/assent?", "/dbos?")
    found.environment["DBOS_SYSTEM_DATABASE_URL"] = address
    return found


def ends(program, run_id, decide):
    process = program.start(run_id)
    decide()
    return ast.literal_eval(said_by(process))


def test_dbos_branches_on_what_people_decide(dbos, person, product):
    refused = ends(dbos, "no", lambda: person.rejects("Paid before."))
    late = ends(dbos, "late", person.lets_it_expire)
    approved = ends(dbos, "yes", person.approves)

    assert [one["status"] for one in (refused, late, approved)] == [
        "refused",
        "expired",
        "succeeded",
    ]
    assert (refused["reason"], refused["decided_by"]) == ("Paid before.", ["Alice Moreau"])
    assert approved["receipt"] == Transaction.objects.get(state="committed").receipt
    assert product.effects()["total"] == 1


def test_dbos_answers_what_people_ask(dbos, person):
    process = dbos.start("asked")
    person.asks("Where are the photos?")
    assert person.reads_the_answer() == "The photos are in ticket 7."
    person.approves()

    assert ast.literal_eval(said_by(process))["status"] == "succeeded"


def test_dbos_recovers_a_workflow_whose_process_died_as_it_proposed_and_as_it_waited(
    dbos, person, product
):
    with between(dbos.environment["ASSENT_URL"]) as relay:
        dbos.environment["ASSENT_URL"] = relay.url
        relay.loses_proposals = True
        dbos.start("run-7")
        proposed = person.sees()
        dbos.kill()

        relay.loses_proposals = False
        dbos.start("run-7")
        assert relay.somebody_waits.wait(60)
        dbos.kill()

        person.approves()
        ended = ast.literal_eval(said_by(dbos.start("run-7")))

    assert (ended["status"], ended["transaction_id"]) == ("succeeded", str(proposed.pk))
    assert Transaction.objects.get() == proposed
    assert product.effects()["total"] == 1
