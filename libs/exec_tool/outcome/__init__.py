"""What a program brings back: its result as data, its last JSON, notes about its files, and why it failed."""

from __future__ import annotations

from libs.exec_tool.outcome.execution_outcome import ExecError, ExecResult, Metrics
from libs.exec_tool.outcome.failure_cause import why_failed
from libs.exec_tool.outcome.file_notes import quoted_path, with_reasons
from libs.exec_tool.outcome.kernel_counters import COUNT, DISK, ROUTES, Counted, counted
from libs.exec_tool.outcome.raised_error import Raised, command_not_found, raised
from libs.exec_tool.outcome.result_json import DEEPEST, NO_VALUE, last_json, too_deep

__all__ = [
    "COUNT",
    "DEEPEST",
    "DISK",
    "NO_VALUE",
    "ROUTES",
    "Counted",
    "ExecError",
    "ExecResult",
    "Metrics",
    "Raised",
    "command_not_found",
    "counted",
    "last_json",
    "quoted_path",
    "raised",
    "too_deep",
    "why_failed",
    "with_reasons",
]
