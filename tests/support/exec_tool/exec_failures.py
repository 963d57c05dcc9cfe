"""Failures of programs, made from what the sandbox tells of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from libs.exec_tool.execute_code_call import Language
from libs.exec_tool.outcome import Counted, ExecError, Raised, why_failed
from libs.exec_tool.program_folder import MODULES
from libs.sandbox.protocol import RunResult

__all__ = ["HANDLED", "answered", "ended", "failure"]

HANDLED = (
    "ModuleNotFoundError: No module named 'polars'\nConnectionError: x\nNo space left on device\nprogress"
)
"""Printed errors that a program has handled."""


def failure(
    language: Language = "python",
    *,
    kernel: Counted | None = None,
    has_result: bool = False,
    has_network: bool = True,
    installs: bool = True,
    raised: Raised | None = None,
    unreached: tuple[str, ...] = (),
    paths: tuple[str, ...] = (),
    **done: Any,
) -> ExecError | None:
    ended = RunResult("", "", 1, truncated=False, timed_out=False, spill_path=None, seconds=1.0)
    return why_failed(
        replace(ended, **done),
        kernel or Counted(),
        bash=language == "bash",
        raised=raised,
        has_result=has_result,
        has_network=has_network,
        installs=installs,
        unreached=unreached,
        modules=MODULES,
        paths=paths,
    )


def ended(name: str, *bases: str, **fields: Any) -> dict[str, Any]:
    """An exception that ended the program. Names without a module are builtins."""
    types = tuple(each if "." in each else f"builtins.{each}" for each in (name, *bases))
    return {"raised": Raised(types, f"{name}: told", **fields)}


def answered(address: str) -> dict[str, Any]:
    return ended("requests.exceptions.HTTPError", "OSError", address=address)
