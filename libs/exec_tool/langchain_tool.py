"""Make the LangChain tool `execute_code` from a runner."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.config import get_config
from pydantic import ValidationError
from pydantic.v1 import ValidationError as ValidationErrorV1

from libs.exec_tool.execute_code_call import Call, explained
from libs.exec_tool.outcome import ExecResult
from libs.exec_tool.program_runner import CodeRunner
from libs.sandbox import OnOutput
from libs.sandbox.host import blocking, current_call

__all__ = ["NAME", "execute_code_tool", "outcome_in"]

NAME = "execute_code"

Live = Callable[[str | None], AbstractContextManager[OnOutput | None]]
"""Takes the id of a tool call; the context gives the callback for its output."""


def execute_code_tool(
    runner: CodeRunner,
    *,
    description: str = "Runs a whole program in a fresh sandbox. The last JSON that it prints is its result.",
    shown_chars: int = 20_000,
    live: Live = lambda _: nullcontext(),
    done: Callable[[ExecResult, str | None], None] = lambda *_: None,
) -> BaseTool:
    """Return the tool. The content of its message is the result as JSON; the artifact has the uncut result.

    The artifact holds the files as base64 if the runner saves no files.

    Args:
        runner: runs the programs.
        description: the description for the model.
        shown_chars: most characters of each output in the content.
        live: see `Live`.
        done: called with each result and the id of its call, in a worker thread.
    """

    async def execute(*text: str, **given: Any) -> tuple[str, dict[str, Any]]:
        # LangChain passes an input that is a text, not an object, as the only argument.
        program = Call.model_validate(text[0]) if text else Call(**given)
        call = current_call()
        with live(call.id) as show:
            result = await runner.acall(
                program, thread=_thread(), key=call.key, on_output=show, recorded=call.recorded
            )
        await asyncio.to_thread(done, result, call.id)
        shown = result.as_json(limit=shown_chars)
        whole = {**shown, "result": result.result}
        if not runner.keeps_files:
            whole["files"] = result.files_as_json(contents=True)
        return json.dumps(shown, ensure_ascii=False), whole

    return _ExecuteCode(
        name=NAME,
        description=description,
        args_schema=Call,
        func=blocking(execute),
        coroutine=execute,
        response_format="content_and_artifact",
        handle_validation_error=_refused,
    )


def outcome_in(message: ToolMessage) -> dict[str, Any] | None:
    """Return the result in the artifact of a tool message (`ExecResult.as_json`), or None if nothing ran."""
    artifact = message.artifact
    return artifact if isinstance(artifact, dict) and "metrics" in artifact else None


class _ExecuteCode(StructuredTool):
    @property
    def tool_call_schema(self) -> type[Call]:
        """The schema for the model. LangChain's own copy would not forbid other keys."""
        return Call


def _refused(error: ValidationError | ValidationErrorV1) -> str:
    why = explained(error) if isinstance(error, ValidationError) else str(error)[:1_000]
    result = ExecResult.failed("input", why, "Send the call again, corrected.")
    answer = current_call().artifact = result.as_json()
    return json.dumps(answer, ensure_ascii=False)


def _thread() -> str:
    try:
        return str(get_config()["configurable"].get("thread_id") or "")
    except (RuntimeError, KeyError):
        return ""
