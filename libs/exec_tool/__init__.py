"""The tool `execute_code`: runs a whole program once, in a fresh sandbox, and returns its result as data.

As a plain function::

    from libs.exec_tool import code_runner

    with code_runner() as run:
        run("print(6 * 7)").result  # 42

As a LangChain tool: `execute_code_tool(runner)`.
"""

from __future__ import annotations

from libs.exec_tool.execute_code_call import Call
from libs.exec_tool.kv_service import HOST, KvService
from libs.exec_tool.langchain_tool import NAME, execute_code_tool, outcome_in
from libs.exec_tool.outcome import NO_VALUE, ExecError, ExecResult, Metrics, quoted_path, with_reasons
from libs.exec_tool.package_sets import MOUNT, Dependencies
from libs.exec_tool.program_runner import CodeRunner
from libs.exec_tool.standalone_tool import code_runner, fresh_sandboxes
from libs.exec_tool.thread_tree import ThreadTrees

__all__ = [
    "HOST",
    "MOUNT",
    "NAME",
    "NO_VALUE",
    "Call",
    "CodeRunner",
    "Dependencies",
    "ExecError",
    "ExecResult",
    "KvService",
    "Metrics",
    "ThreadTrees",
    "code_runner",
    "execute_code_tool",
    "fresh_sandboxes",
    "outcome_in",
    "quoted_path",
    "with_reasons",
]
