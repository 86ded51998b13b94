"""Traces by OpenTelemetry: one from an agent's proposal to the effect, by way of ``traceparent``.

They are sent where OpenTelemetry's own settings (``OTEL_EXPORTER_OTLP_ENDPOINT`` …) say, if the
extra ``otel`` is installed. Without them nothing is recorded, and what is called hears of the
agent's own trace.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

MISSING = (
    "OpenTelemetry's endpoint is set, and its SDK is not installed. Install assent[otel], or unset "
    "OTEL_EXPORTER_OTLP_ENDPOINT."
)
TRACEPARENT = TraceContextTextMapPropagator()
tracer = trace.get_tracer("assent")


def begin() -> None:
    """Send spans of this process, if the settings name a collector.

    Raises ``ImproperlyConfigured`` where they do, and the extra is not installed.
    """
    if not settings.SENDS_TRACES:
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import OTELResourceDetector, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as missing:
        raise ImproperlyConfigured(MISSING) from missing
    named = Resource.create({"service.name": "assent"}).merge(OTELResourceDetector().detect())
    provider = TracerProvider(resource=named)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)


@contextmanager
def span(
    name: str,
    attributes: Mapping[str, object],
    *,
    within: str = "",
    kind: SpanKind = SpanKind.INTERNAL,
) -> Iterator[Span]:
    """A span below the trace context ``within``, a W3C traceparent; else below the present one.

    Attributes that are empty are left out.
    """
    parent = TRACEPARENT.extract({"traceparent": within}) if within else None
    stated = {key: str(value) for key, value in attributes.items() if value}
    with tracer.start_as_current_span(
        name, parent, kind, stated, record_exception=False, set_status_on_exception=False
    ) as begun:
        try:
            yield begun
        except (
            Exception
        ) as failure:  # its text may have a secret in it, or what nobody else may read
            begun.set_attribute("error.type", type(failure).__name__)
            failed(begun)
            raise


def failed(begun: Span) -> None:
    begun.set_status(StatusCode.ERROR)


def headers() -> Mapping[str, str]:
    """The present trace context for who is called: ``traceparent``; empty where there is none."""
    carried: dict[str, str] = {}
    TRACEPARENT.inject(carried)
    return carried


def trace_id() -> str:
    """Of the present trace: 32 hex digits, or empty."""
    context = trace.get_current_span().get_span_context()
    return trace.format_trace_id(context.trace_id) if context.is_valid else ""
