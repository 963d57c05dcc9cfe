"""Exports OpenTelemetry spans of executions to OTEL_EXPORTER_OTLP_ENDPOINT."""

from __future__ import annotations

import functools

from agent.settings import Settings

__all__ = ["export_spans"]


def export_spans(settings: Settings) -> None:
    """Export spans from now on. Without an endpoint does nothing."""
    if settings.otel_exporter_otlp_endpoint:
        _export(settings.otel_exporter_otlp_endpoint.rstrip("/"))


@functools.cache
def _export(endpoint: str) -> None:
    """Add one exporter for each endpoint, however many graphs ask for it."""
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import SERVICE_NAME, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    from libs.exec_tool import execution_spans as spans

    provider = trace.get_tracer_provider()
    if not isinstance(provider, TracerProvider):  # LangGraph's server may have made one
        provider = TracerProvider(resource=Resource.create({SERVICE_NAME: "code-execution-agent"}))
        trace.set_tracer_provider(provider)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=f"{endpoint}/v1/traces")))
    spans.send_to(provider.get_tracer("code-execution-agent"))
