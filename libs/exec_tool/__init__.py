"""One tool: a whole program runs once, in a sandbox of its own, and comes back as data.

As a plain function::

    from libs.exec_tool import code_runner

    with code_runner() as run:
        run("print(6 * 7)").result  # 42

as a LangChain tool: `execute_code_tool(runner)`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from libs.exec_tool.call import Call
from libs.exec_tool.dependencies import Dependencies
from libs.exec_tool.outcome import ExecError, ExecResult, Metrics
from libs.exec_tool.runner import CodeRunner

if TYPE_CHECKING:
    from libs.exec_tool.alone import code_runner
    from libs.exec_tool.tool import execute_code_tool

__all__ = [
    "Call",
    "CodeRunner",
    "Dependencies",
    "ExecError",
    "ExecResult",
    "Metrics",
    "code_runner",
    "execute_code_tool",
]


def __getattr__(name: str) -> object:
    # What needs Docker's SDK or LangChain is imported by whoever uses it.
    if name == "code_runner":
        from libs.exec_tool.alone import code_runner

        return code_runner
    if name == "execute_code_tool":
        from libs.exec_tool.tool import execute_code_tool

        return execute_code_tool
    raise AttributeError(name)
