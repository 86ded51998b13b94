"""The programs of docs/frameworks.md that wait in a call, as they stand there."""

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
PROGRAMS = {
    "crewai": "CrewAI",
    "agent_framework": "Microsoft Agent Framework",
    "claude_agent_sdk": "Claude Agent SDK",
}


OF_GIGABYTES = {"crewai"}


@pytest.fixture(
    params=[
        pytest.param(name, marks=[pytest.mark.large] if name in OF_GIGABYTES else [])
        for name in PROGRAMS
    ]
)
def agent(request, program):
    found = program("frameworks.md", PROGRAMS[request.param], request.param)
    with a_model() as address:
        found.environment |= {
            "OPENAI_BASE_URL": f"{address}/v1",
            "OPENAI_API_KEY": "sk-test",
            "ANTHROPIC_BASE_URL": address,
            "ANTHROPIC_API_KEY": "sk-ant-test",
            "CREWAI_DISABLE_TELEMETRY": "true",
            "CREWAI_TRACING_ENABLED": "false",
            "OTEL_SDK_DISABLED": "true",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        }
        yield found


def started(agent, run_id):
    """CrewAI is told which run it is; a call over MCP is known by its arguments."""
    run = [run_id] if "argv[2]" in agent.file.read_text() else []
    return agent.start(*run, "Refund Ana's lamp.")


def ended(process):
    return json.loads(said_by(process, 90))


def test_the_model_is_told_what_people_decided_and_what_they_asked(agent, person, product):
    process = started(agent, "refused")
    person.rejects("Paid before.")
    refused = ended(process)
    process = started(agent, "late")
    person.lets_it_expire()
    late = ended(process)
    started(agent, "asked")
    waiting = person.sees()
    agent.kill()
    process = started(agent, "asked")
    person.asks("Where are the photos?")
    assert person.reads_the_answer() == ANSWER
    person.approves()
    approved = ended(process)

    said = [one["status"] for one in (refused, late, approved)]
    assert said == ["refused", "expired", "succeeded"]
    assert (refused["reason"], refused["do_not_retry"]) == ("Paid before.", True)
    assert (Transaction.objects.count(), approved["transaction_id"]) == (3, str(waiting.pk))
    assert approved["receipt"] == Transaction.objects.get(state="committed").receipt
    assert product.effects()["total"] == 1
