"""Log lines and spans hold no code, argument values or output. Log lines name files and packages."""

from __future__ import annotations

import gzip
import http.server
import json
import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import ClassVar

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from agent.settings import ROOT
from libs.exec_tool import execution_spans as spans
from libs.exec_tool.execute_code_call import Call
from libs.exec_tool.outcome import ExecResult, Metrics

SECRETS = ("the-code", "the-args", "the-output", "the-content")
CALL = {
    "code": "print('the-code')",
    "args": {"a": "the-args"},
    "files": {"name": "the-content"},
    "dependencies": ["the-package"],
}

PROGRAM = f"""
import sys
from opentelemetry import trace
from agent.config import load_settings
from agent.parts.tracing import export_spans
from libs.exec_tool import execution_spans as spans
from libs.exec_tool.execute_code_call import Call
from libs.exec_tool.outcome import ExecResult, Metrics
export_spans(load_settings(None, otel_exporter_otlp_endpoint=sys.argv[1]))
call = Call(**{CALL!r})
for result in (ExecResult(stdout="the-output", metrics=Metrics(total=0.5, exit_code=0)),
               ExecResult.failed("memory", "the-output", "h")):
    with spans.part("execute_code") as span:
        with spans.part("run"):
            pass
        spans.record(span, call, "thread-1", result)
trace.get_tracer_provider().force_flush()
"""
"""Exports spans as with OTEL_EXPORTER_OTLP_ENDPOINT."""


class Collector(http.server.BaseHTTPRequestHandler):
    """Records requests with their paths."""

    received: ClassVar[list[tuple[str, bytes]]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        self.received.append((self.path, body))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def collector() -> Iterator[str]:
    Collector.received.clear()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_execution_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    packages = [f"package-{number:02}" for number in range(23)]
    call = Call(**{**CALL, "dependencies": packages})  # type: ignore[arg-type]
    result = ExecResult(
        stdout="the-output",
        files={f"results/{number:02}": b"the-content" for number in range(22)},
        metrics=Metrics(total=0.5, peak_memory=7, exit_code=0, cache_hit=True),
    )
    with (
        caplog.at_level(logging.INFO, logger="libs.exec_tool.execution_spans"),
    ):
        spans.record(None, call, "thread-1", result)
    [record] = caplog.records
    line = json.loads(record.getMessage())
    assert {
        "event": "execution",
        "thread": "thread-1",
        "dependencies": [*packages[:20], "and 3 more"],
        "files_in": ["name"],
        "files_out": [*(f"results/{number:02}" for number in range(20)), "and 2 more"],
        "args_bytes": len('{"a": "the-args"}'),
        "error": None,
        "peak_memory": 7,
    }.items() <= line.items()
    assert not any(secret in record.getMessage() for secret in SECRETS)


@pytest.mark.thorough
def test_spans_reach_the_collector(collector: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM, collector],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    found: list[Span] = []
    for path, body in Collector.received:
        assert path == "/v1/traces"
        assert not any(secret.encode() in body for secret in (*SECRETS, "the-package"))
        sent = ExportTraceServiceRequest.FromString(body)
        found += [span for part in sent.resource_spans for scope in part.scope_spans for span in scope.spans]
    assert [span.name for span in found] == ["run", "execute_code"] * 2
    whole, failed = ({each.key: each.value for each in span.attributes} for span in found[1::2])
    assert whole["code.total"].double_value == 0.5
    assert whole["thread.id"].string_value == "thread-1"
    assert found[0].parent_span_id == found[1].span_id
    assert failed["error.type"].string_value == "memory"
    assert found[3].status.code == Status.STATUS_CODE_ERROR
