"""An agent small enough to be read in one sitting: a loop, a strict protocol, three tools, one folder.

Read `lite_protocol.py`, `sandbox_path.py`, `lite_tools.py`, `lite_model.py`, `lite_loop.py`, in this order.
The agent runs no command and needs neither LangChain nor Docker. In comes a task. Out come
an answer and its steps.
"""

from __future__ import annotations

from libs.lite.lite_loop import FinalStep, Model, Step, ToolStep, run_lite
from libs.lite.lite_model import OPENAI, LiteModel
from libs.lite.sandbox_path import LiteError, PathRefused, resolve_sandbox_path

__all__ = [
    "OPENAI",
    "FinalStep",
    "LiteError",
    "LiteModel",
    "Model",
    "PathRefused",
    "Step",
    "ToolStep",
    "resolve_sandbox_path",
    "run_lite",
]
