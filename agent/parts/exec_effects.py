"""Decides on programs of the one-tool agent by what they have done to the files of their thread."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from pydantic import ValidationError

from agent.parts.effects_of_calls import DeferredEffects, ToolEffects
from agent.parts.exec_parts import ExecParts
from agent.settings import Settings
from libs.backends.docker import live_output
from libs.exec_tool import NAME, Call, CodeRunner
from libs.middleware.captures import captured_thread
from libs.sandbox import RunResult

if TYPE_CHECKING:
    from libs.middleware.approvals import Request
    from libs.workspace import Entry
    from libs.workspace.history import IsFree

__all__ = ["program_effects"]

_RESULTS = "/results/"


def program_effects(settings: Settings, parts: ExecParts) -> ToolEffects | None:
    """Return the object that decides on programs by their effects.

    None if nobody is asked, or if files of threads are not captured.
    """
    if parts.captures is None or settings.approvals == "auto":
        return None
    # The programs of a thread run one at a time anyway, so its store needs no lock.
    effects = DeferredEffects(settings, parts.captures, is_free=lambda: _free(settings.effects_free))
    return ToolEffects(effects, covers=_is_program, run=partial(_run, parts.runner))


def _free(patterns: Sequence[str]) -> IsFree:
    """Return a function that tells whether a change in the store of a thread needs no approval.

    Free is what a pattern covers, and every new file, except below `results/`: those files are copied to the
    workspace, where they may replace a file.
    """
    from libs.middleware.approvals.effects import free_changes  # slow to import

    covered, anywhere = free_changes(patterns), free_changes(["/**"])

    def is_free(path: str, before: Entry | None, after: Entry | None) -> bool:
        is_new = before is None and not path.startswith(_RESULTS)
        return covered(path, before, after) or (is_new and anywhere(path, before, after))

    return is_free


def _is_program(request: Request) -> bool:
    """Return whether a program can run without network: its call is valid, and installs nothing."""
    try:
        return request.name == NAME and not Call.model_validate(dict(request.args)).dependencies
    except ValidationError:
        return False


async def _run(runner: CodeRunner, request: Request, key: str, seconds: float) -> RunResult:  # noqa: ARG001
    # The runner has a limit of its own: EXEC_SECONDS.
    call = Call.model_validate(dict(request.args))
    with live_output(request.call_id) as show:
        done = await runner.acall(call, thread=str(captured_thread()), key=key, on_output=show)
    return done.as_run_result()
