"""Prints a run as lines of JSON, for other programs."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Any

from agent.listing import is_plot
from agent.run import (
    Approval,
    CommandEnded,
    CommandStarted,
    Event,
    FileMade,
    Message,
    Output,
    Result,
    SecretSuspected,
)

__all__ = ["JsonLines", "write_result"]

_SHOWN = ("action_requests", "review_configs", "scopes", "error")
"""Fields of a question that the line `approval` holds."""


class JsonLines:
    """Writes a line for each event, and at last the line `result`. docs/terminal.md lists the lines.

    The lines are ASCII, so that output which is not UTF-8 cannot break a reader.
    """

    def __init__(self, thread_id: str) -> None:
        self._thread_id = thread_id

    def show(self, event: Event) -> None:
        """Write the line for an event."""
        match event:
            case Message(text=text, tool_calls=calls, subagent=subagent):
                _write("message", text=text, tool_calls=list(calls), subagent=subagent)
            case CommandStarted(call_id=call_id, language=language, code=code, subagent=subagent):
                granted = {"granted": event.granted} if event.granted else {}
                _write("command", id=call_id, language=language, code=code, subagent=subagent, **granted)
            case Output(call_id=call_id, text=text):
                _write("output", id=call_id, text=text)
            case CommandEnded(call_id=call_id, execution=done):
                _write("output", id=call_id, text="", exit_code=done["exit_code"], seconds=done["seconds"])
            case SecretSuspected(call_id=call_id, found=found):
                _write("secret_suspected", id=call_id, found=list(found))
            case FileMade(path=path):
                _write("file", path=path, plot=is_plot(path))
            case Approval(interrupt_id=interrupt_id, question=question, grants=grants):
                about = {"thread_id": self._thread_id, "interrupt_id": interrupt_id, "grants": list(grants)}
                shown = {key: question[key] for key in _SHOWN if key in question}
                _write("approval", **about, **shown)
            case _:
                pass

    def finish(self, result: Result) -> None:
        """Write the line `result`."""
        write_result(result)


def write_result(result: Result) -> None:
    """Write the line `result`; for a run that could not begin, the only line."""
    fields = asdict(result)
    if not result.absent_paths:
        del fields["absent_paths"]
    _write("result", **fields)


def _write(kind: str, **fields: Any) -> None:
    sys.stdout.write(json.dumps({"type": kind, **fields}, default=str) + "\n")
    sys.stdout.flush()
