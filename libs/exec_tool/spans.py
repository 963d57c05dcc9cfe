"""What is told of executions besides their result: a structured line in the log, and OpenTelemetry spans.

Neither holds a program, its arguments, its output, the content of a file or the name of a package.
OpenTelemetry is imported by whoever wants spans, and by nobody else.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from libs.exec_tool.call import Call
from libs.exec_tool.outcome import ExecResult

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

__all__ = ["execution", "part", "send_to", "told"]

logger = logging.getLogger(__name__)

_tracers: list[Tracer] = []
"""The one that spans are made by; empty where nobody wants any."""


def send_to(tracer: Tracer | None) -> None:
    """Have spans made by this tracer from now on, in the whole process; None: no more."""
    _tracers[:] = [tracer] if tracer else []


@contextmanager
def execution(call: Call, thread: str) -> Iterator[Span | None]:
    """A span around one execution; None where nobody wants any."""
    with _span("execute_code") as span:
        if span:
            span.set_attributes(
                {
                    "thread.id": thread,
                    "code.language": call.language,
                    "code.characters": len(call.code),
                    "code.dependencies": len(call.dependencies),
                    "code.files": len(call.files),
                }
            )
        yield span


@contextmanager
def part(name: str) -> Iterator[None]:
    """A span around a part of it: `install`, `sandbox`, `fill`, `run`, `collect`."""
    with _span(name):
        yield


@contextmanager
def _span(name: str) -> Iterator[Span | None]:
    if not _tracers:
        yield None
        return
    with _tracers[0].start_as_current_span(name) as span:
        yield span


def told(span: Span | None, call: Call, thread: str, result: ExecResult) -> None:
    """Say how it ended."""
    error = result.error.kind if result.error else None
    metrics = {name: value for name, value in result.metrics.as_json().items() if value is not None}
    if span:
        _tell(span, error, metrics)
    line: dict[str, Any] = {
        "event": "execution",
        "thread": thread,
        "language": call.language,
        "characters": len(call.code),
        "dependencies": len(call.dependencies),
        "files_in": len(call.files),
        "files_out": len(result.files),
        "error": error,
        **metrics,
    }
    logger.info("%s", json.dumps(line))


def _tell(span: Span, error: str | None, metrics: dict[str, Any]) -> None:
    from opentelemetry.trace import Status, StatusCode

    span.set_attributes({f"code.{name}": value for name, value in metrics.items()})
    if error:
        span.set_attribute("error.type", error)
        span.set_status(Status(StatusCode.ERROR, error))
