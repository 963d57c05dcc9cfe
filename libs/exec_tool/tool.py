"""`execute_code` as a LangChain tool."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from langchain_core.tools import BaseTool, StructuredTool
from langgraph.config import get_config
from pydantic import ValidationError
from pydantic.v1 import ValidationError as ValidationErrorV1

from libs.exec_tool.call import Call, explained
from libs.exec_tool.outcome import ExecResult
from libs.sandbox.protocol import OnOutput

if TYPE_CHECKING:
    from libs.exec_tool.runner import CodeRunner

__all__ = ["CALL", "NAME", "execute_code_tool"]

NAME = "execute_code"

CALL: ContextVar[tuple[str | None, str | None]] = ContextVar("call", default=(None, None))
"""The id of the tool call that runs now, and what tells it from every other one of its thread; set around
it."""

Live = Callable[[str | None], AbstractContextManager[OnOutput | None]]
"""Makes, for the id of a tool call, what is given its output while it runs."""


def execute_code_tool(
    runner: CodeRunner,
    *,
    description: str = "Runs a whole program in a fresh sandbox. The last JSON that it prints is its result.",
    shown_chars: int = 20_000,
    live: Live = lambda _: nullcontext(),
    done: Callable[[ExecResult, str | None], None] = lambda *_: None,
) -> BaseTool:
    """The tool. Its content is the result as JSON, its artifact the same with the whole result.

    Files are in the artifact as base64 where nothing else keeps them.

    Args:
        runner: runs the programs.
        description: what a model is told of it.
        shown_chars: characters of each output that a model is shown.
        live: see `Live`.
        done: called in a thread with each result and the id of its call; may take a second.
    """

    async def execute(**given: Any) -> tuple[str, dict[str, Any]]:
        call_id, key = CALL.get()
        with live(call_id) as show:
            result = await runner.acall(Call(**given), thread=_thread(), key=key, on_output=show)
        await asyncio.to_thread(done, result, call_id)
        return _told(result)

    def execute_now(**given: Any) -> tuple[str, dict[str, Any]]:
        from libs.sandbox.blocking import blocking

        return blocking(lambda _: execute(**given))(None)

    def _told(result: ExecResult) -> tuple[str, dict[str, Any]]:
        shown = result.as_json(limit=shown_chars)
        whole = {**shown, "result": result.result}
        if not runner.keeps_files:
            whole["files"] = result.files_as_json(contents=True)
        return json.dumps(shown, ensure_ascii=False), whole

    return _ExecuteCode(
        name=NAME,
        description=description,
        args_schema=Call,
        func=execute_now,
        coroutine=execute,
        response_format="content_and_artifact",
        handle_validation_error=_refused,
    )


class _ExecuteCode(StructuredTool):
    @property
    def tool_call_schema(self) -> type[Call]:
        """What a model is shown; LangChain's own copy of it would not say that other keys are refused."""
        return Call


def _refused(error: ValidationError | ValidationErrorV1) -> str:
    why = explained(error) if isinstance(error, ValidationError) else str(error)[:1_000]
    result = ExecResult.failed("input", why, "Send the call again, corrected.")
    return json.dumps(result.as_json(), ensure_ascii=False)


def _thread() -> str:
    try:
        configurable: Mapping[str, Any] = get_config()["configurable"]
    except (RuntimeError, KeyError):
        return ""
    return str(configurable.get("thread_id") or "")
