"""The programs of docs/workflows.md, as they stand there, in engines that are killed meanwhile."""

from __future__ import annotations

import ast
import os
import subprocess
from contextlib import contextmanager

import pytest

from ledger.models import Transaction
from tests.frameworks.conftest import said_by
from tests.frameworks.relay import between
from tests.processes import free_port

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.slow,
    pytest.mark.timeout(900),  # the first test of each installs its packages
]


@contextmanager
def postgres(python):
    yield {"DBOS_SYSTEM_DATABASE_URL": os.environ["DATABASE_URL"].replace("/assent?", "/dbos?")}


@contextmanager
def temporal_server(python):
    port = str(free_port())
    options = ["--headless", "--ip", "127.0.0.1", "--port", port]
    command = [str(python.with_name("temporal")), "server", "start-dev", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert any(f":{port}" in line for line in server.stdout)  # it says so once it is up
            yield {"TEMPORAL_ADDRESS": f"127.0.0.1:{port}"}
        finally:
            server.kill()


ENGINES = {"DBOS": postgres, "Temporal": temporal_server}


@pytest.fixture(params=ENGINES)
def engine(request, program):
    found = program("workflows.md", request.param, request.param.lower())
    with ENGINES[request.param](found.python) as environment:
        found.environment |= environment
        yield found


def ends(program, run_id, decide):
    process = program.start(run_id)
    decide()
    return ast.literal_eval(said_by(process))


def test_a_workflow_branches_on_what_people_decide_and_answers_what_they_ask(
    engine, person, product
):
    def asks_and_approves():
        person.asks("Where are the photos?")
        assert person.reads_the_answer() == "The photos are in ticket 7."
        person.approves()

    refused = ends(engine, "no", lambda: person.rejects("Paid before."))
    late = ends(engine, "late", person.lets_it_expire)
    approved = ends(engine, "yes", asks_and_approves)

    said = [one["status"] for one in (refused, late, approved)]
    assert said == ["refused", "expired", "succeeded"]
    assert (refused["reason"], refused["decided_by"]) == ("Paid before.", ["Alice Moreau"])
    assert approved["receipt"] == Transaction.objects.get(state="committed").receipt
    assert product.effects()["total"] == 1


def test_a_workflow_whose_process_dies_as_it_proposes_and_as_it_waits_proposes_once(
    engine, person, product
):
    with between(engine.environment["ASSENT_URL"]) as relay:
        engine.environment["ASSENT_URL"] = relay.url
        relay.loses_proposals = True
        engine.start("run-7")
        proposed = person.sees()
        engine.kill()

        relay.loses_proposals = False
        engine.start("run-7")
        assert relay.somebody_waits.wait(60)
        engine.kill()

        person.approves()
        ended = ast.literal_eval(said_by(engine.start("run-7")))

    assert (ended["status"], ended["transaction_id"]) == ("succeeded", str(proposed.pk))
    assert Transaction.objects.get() == proposed
    assert product.effects()["total"] == 1
