"""Traces that LangSmith's client passes to OpenTelemetry contain no secrets."""

from __future__ import annotations

import subprocess
import sys

from agent.settings import ROOT

SECRET = "sk-canary-4f9XqT7bZuAb3dEf"

PROGRAM = f"""
import contextlib, os
os.environ |= {{"LANGSMITH_TRACING": "true", "LANGSMITH_TRACING_MODE": "otel", "LANGSMITH_API_KEY": "x"}}
from langchain_core.runnables import RunnableLambda
from langsmith.run_trees import get_cached_client
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from agent.secrets.redaction_guards import guard_traces
from libs.redaction import SecretFilter

exporter, provider = InMemorySpanExporter(), TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
guard_traces(SecretFilter({{"KEY": "{SECRET}"}}))

def echo(given):
    return {{"said": given["ask"]}}

def fail(given):
    raise ValueError("a package repeats " + given["ask"])

for work in (echo, fail):
    with contextlib.suppress(ValueError):
        RunnableLambda(work).invoke({{"ask": "with {SECRET}"}}, config={{"metadata": {{"key": "{SECRET}"}}}})
get_cached_client().flush()
provider.force_flush()
for span in exporter.get_finished_spans():
    print(span.to_json(indent=None))
"""


def test_inputs_outputs_errors_and_metadata_are_redacted() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "with [REDACTED]" in done.stdout
    assert "a package repeats with [REDACTED]" in done.stdout
    assert SECRET not in done.stdout + done.stderr
