"""Report executions in the log, as structured lines, and as OpenTelemetry spans.

Lines and spans hold no code, no values of arguments, no output and no contents of files. Lines also hold
names of packages and files: the log removes secrets from lines, but not from spans. This module imports
OpenTelemetry only if spans are switched on.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from libs.exec_tool.execute_code_call import Call
from libs.exec_tool.outcome import ExecResult

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

__all__ = ["part", "record", "send_to"]

logger = logging.getLogger(__name__)

_tracers: list[Tracer] = []
"""The tracer that makes spans, or empty."""


_MOST_NAMED = 20


def send_to(tracer: Tracer | None) -> None:
    """Set the tracer for the whole process. None switches spans off."""
    _tracers[:] = [tracer] if tracer else []


def part(name: str) -> AbstractContextManager[Span | None]:
    """Open a span: `execute_code`, or in it `install`, `sandbox`, `fill`, `run`, `collect`.

    Gives None without a tracer.
    """
    return _tracers[0].start_as_current_span(name) if _tracers else nullcontext()


def record(span: Span | None, call: Call, thread: str, result: ExecResult) -> None:
    """Record the end of an execution in its span and in the log."""
    error = result.error.kind if result.error else None
    facts = {
        "language": call.language,
        "characters": len(call.code),
        "args_bytes": 0 if call.args is None else len(json.dumps(call.args).encode()),
        "dependencies": len(call.dependencies),
        "files_in": len(call.files),
        "files_out": len(result.files),
        **{name: value for name, value in result.metrics.as_json().items() if value is not None},
    }
    if span:
        from opentelemetry.trace import Status, StatusCode

        span.set_attributes({"thread.id": thread, **{f"code.{name}": fact for name, fact in facts.items()}})
        if error:
            span.set_attribute("error.type", error)
            span.set_status(Status(StatusCode.ERROR, error))
    named = {
        "dependencies": _named(call.dependencies),
        "files_in": _named(call.files),
        "files_out": _named(result.files),
    }
    logger.info("%s", json.dumps({"event": "execution", "thread": thread, "error": error, **facts, **named}))


def _named(things: Iterable[str]) -> list[str]:
    names = sorted(things)
    more = len(names) - _MOST_NAMED
    return [*names[:_MOST_NAMED], *([f"and {more} more"] if more > 0 else [])]
