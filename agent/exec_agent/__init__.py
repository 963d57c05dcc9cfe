"""Middleware of the one-tool agent: calls in text, one execution, memory.

In come replies of the model and outcomes of programs; out go calls of `execute_code`, errors for another try,
the final answer, and messages for the memory.
"""

from __future__ import annotations

from agent.exec_agent.calls_in_text import CallsInText
from agent.exec_agent.memory_middleware import MemoryMiddleware
from agent.exec_agent.one_execution import OneExecution

__all__ = ["CallsInText", "MemoryMiddleware", "OneExecution"]
