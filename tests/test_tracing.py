"""One trace from the agent's proposal to the effect: by ``traceparent``, and as spans if asked."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from ledger.foundation.telemetry import log_context, tracing
from tests.processes import until

TRACE, AGENTS_SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE}-{AGENTS_SPAN}-01"


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """What the real SDK records here, where no collector is set."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(tracing, "tracer", provider.get_tracer("assent"))
    return exporter


def test_without_a_collector_who_is_called_hears_of_the_agents_own_span():
    with tracing.span("execute refund_invoice", {}, within=TRACEPARENT):
        carried = tracing.headers()

    assert carried == {"traceparent": TRACEPARENT}


def test_without_a_trace_nothing_is_carried_on():
    with tracing.span("execute refund_invoice", {}):
        carried = tracing.headers()

    assert carried == {}
    assert tracing.trace_id() == ""


def test_what_an_exception_says_is_in_no_span(spans):
    with pytest.raises(ValueError, match="the token"), tracing.span("execute refund_invoice", {}):
        raise ValueError("the token is secret-4711")

    (span,) = spans.get_finished_spans()
    assert "secret-4711" not in span.to_json()
    assert span.attributes["error.type"] == "ValueError"
    assert not span.status.is_ok


@pytest.mark.parametrize("broken", ["00-x", "00-" + "0" * 32 + "-00f067aa0ba902b7-01", "💥"])
def test_a_trace_context_that_is_none_is_ignored(broken):
    with tracing.span("execute refund_invoice", {}, within=broken):
        assert tracing.headers() == {}


def test_a_request_is_a_span_of_the_agents_trace_and_its_log_lines_say_which(spans):
    from asgiref.sync import async_to_sync

    from approvals.http.admission.request_log import RequestLog

    noted = []

    async def answers(scope: Any, receive: Any, send: Any) -> None:
        noted.append(dict(log_context.current()))
        await send({"type": "http.response.start", "status": 500, "headers": []})

    async def send(message: Any) -> None:
        pass

    scope = {
        "type": "http",
        "method": "GET",
        "path": "/join/secret-of-a-link",
        "query_string": b"",
        "headers": [(b"traceparent", TRACEPARENT.encode())],
    }
    async_to_sync(RequestLog(answers))(scope, None, send)

    (span,) = spans.get_finished_spans()
    assert noted[0]["trace_id"] == TRACE
    assert f"{span.context.trace_id:032x}" == TRACE
    assert f"{span.parent.span_id:016x}" == AGENTS_SPAN
    assert span.name == "GET pages"
    assert span.attributes["url.path"] == "/join/…"
    assert span.attributes["http.response.status_code"] == 500
    assert not span.status.is_ok


class Collector:
    """Takes OTLP over HTTP as protobuf, and nothing else."""

    def __init__(self, status: int = 200) -> None:
        self.spans: list[Any] = []
        self.services: set[str] = set()
        self.asked = threading.Event()
        self.may_answer = threading.Event()
        self.may_answer.set()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.asked.set()
                outer.may_answer.wait(30)
                if (
                    self.path != "/v1/traces"
                    or self.headers["Content-Type"] != "application/x-protobuf"
                ):
                    self.send_error(415)
                    return
                for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                    names = {each.key: each.value for each in resource.resource.attributes}
                    outer.services.add(names["service.name"].string_value)
                    for scope in resource.scope_spans:
                        outer.spans += scope.spans
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def stop(self) -> None:
        self.may_answer.set()
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def collector() -> Iterator[Collector]:
    collector = Collector()
    yield collector
    collector.stop()


def started(script: str, **environment: str) -> subprocess.Popen[str]:
    """A process that begins as each of ours does, and then runs the script."""
    return subprocess.Popen(
        [sys.executable, "-c", f"import django; django.setup()\n{script}"],
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "approvals.settings", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


SPAN = f"""
from ledger.foundation.telemetry import tracing
with tracing.span("execute refund_invoice", {{"assent.tenant": "acme"}}, within="{TRACEPARENT}"):
    print(tracing.headers()["traceparent"], flush=True)
"""


@pytest.mark.slow
def test_spans_arrive_at_the_collector_that_opentelemetrys_settings_name(collector):
    told, _ = started(SPAN, OTEL_EXPORTER_OTLP_ENDPOINT=collector.address).communicate(timeout=60)

    (span,) = collector.spans
    assert collector.services == {"assent"}
    assert span.parent_span_id.hex() == AGENTS_SPAN
    assert told.strip() == f"00-{TRACE}-{span.span_id.hex()}-01"


@pytest.mark.slow
def test_a_collector_that_does_not_answer_delays_nobody(collector):
    collector.may_answer.clear()
    more = SPAN * 3 + 'print("all done", flush=True)'
    with started(
        more,
        OTEL_EXPORTER_OTLP_ENDPOINT=collector.address,
        OTEL_BSP_SCHEDULE_DELAY="1",
        OTEL_EXPORTER_OTLP_TIMEOUT="60",
    ) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(4)]
        until(collector.asked.is_set)
        process.kill()

    assert lines[-1] == "all done\n"


@pytest.mark.slow
def test_a_process_without_the_extra_does_not_start_and_says_what_to_install():
    """The SDK is hidden: its import fails."""
    hide = "import sys; sys.modules['opentelemetry.sdk.trace'] = None\n"
    process = subprocess.run(
        [sys.executable, "-c", f"{hide}import django; django.setup()"],
        env={
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "approvals.settings",
            "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9",
        },
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert process.returncode != 0
    assert "Install assent[otel], or unset" in process.stderr
