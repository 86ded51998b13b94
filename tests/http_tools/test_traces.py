"""The trace of an agent reaches the service of the tool that does what it proposed."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from ledger import execution
from ledger.api.rendering import render_token
from ledger.foundation.telemetry import tracing
from ledger.models import Transaction
from ledger.principals import Principal
from ledger.transactions import coordinator
from ledger.transactions.coordinator import Proposal
from tests.http_tools.test_transactions import PLAN

pytestmark = pytest.mark.django_db(transaction=True)

TRACE, AGENTS_SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE}-{AGENTS_SPAN}-01"


def proposed_in_a_trace(tool: str, **arguments: Any) -> Transaction:
    answer = coordinator.prepare(
        Proposal(tool, arguments, traceparent=TRACEPARENT),
        by=Principal("agent", "acme/helpdesk", "Helpdesk agent"),
        tenant="acme",
        key="refund of invoice 7",
        via="api",
        render=render_token,
    )
    return Transaction.objects.get(pk=answer.transaction_id)


@pytest.fixture
def executed(service, registered, alice):
    """What the service was asked when it was to carry out what an agent with a trace proposed."""

    def make():
        registered()
        service.answers |= {"plan": (200, PLAN), "commit": (200, {"receipt": {"id": "r1"}})}
        row = proposed_in_a_trace("refund_invoice", invoice="7", amount=48.2)
        coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web")
        execution.commit(row.pk)
        return row, next(asked for asked in service.asked if asked.path.endswith("/commit"))

    return make


def test_the_service_is_told_the_agents_trace_context(executed):
    _, asked = executed()

    assert asked.headers["traceparent"] == TRACEPARENT


def test_with_spans_the_call_is_one_of_them_and_the_parent_of_what_the_service_does(
    executed, monkeypatch
):
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(tracing, "tracer", provider.get_tracer("assent"))

    row, asked = executed()

    span = next(
        span for span in exporter.get_finished_spans() if span.name == "execute refund_invoice"
    )
    assert f"{span.parent.span_id:016x}" == AGENTS_SPAN
    assert asked.headers["traceparent"] == f"00-{TRACE}-{span.context.span_id:016x}-01"
    assert span.attributes["assent.transaction"] == str(row.pk)
    assert span.attributes["assent.outcome"] == "done"
