"""The loop of run-lite: ask the model, call the tool that the reply names, until the reply is an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict

from libs.lite.lite_protocol import Final, read_reply, system_prompt, tool_result
from libs.lite.lite_tools import call_tool
from libs.lite.sandbox_path import LiteError

__all__ = ["FinalStep", "Model", "Step", "ToolStep", "run_lite"]


class ToolStep(TypedDict):
    """One call of a tool."""

    type: Literal["tool"]
    name: str
    args: dict[str, Any]
    result: str


class FinalStep(TypedDict):
    """The answer: the last step."""

    type: Literal["final"]
    content: str


Step = ToolStep | FinalStep

Model = Callable[[Sequence[Mapping[str, str]]], Awaitable[str]]
"""Takes a conversation as messages of OpenAI and returns the text of the reply."""


async def run_lite(
    task: str,
    model: Model,
    root: Path,
    *,
    max_iterations: int = 6,
    lenient_fences: bool = False,
    redact: Callable[[str], str] = str,
) -> tuple[str, list[Step]]:
    """Carry out a task in a folder, and return the model's answer and the steps that led to it.

    Args:
        task: the request of the person.
        model: answers each conversation.
        root: the folder; created if missing.
        max_iterations: most model calls of the run.
        lenient_fences: see `read_reply`.
        redact: puts `[REDACTED]` in the place of secrets in the text of files and of the model.

    Raises:
        InvalidOutput: a reply breaks the protocol.
        ToolFailed, PathRefused: a tool failed, or does not exist.
        ModelFailed: the model did not answer.
        LiteError: "Exceeded max iterations": no answer after `max_iterations` model calls.

    Each error names the files that the run has written.
    """
    messages = [
        {"role": "system", "content": system_prompt(max_iterations)},
        {"role": "user", "content": task},
    ]
    steps: list[Step] = []
    written = set[str]()
    try:
        for _ in range(max_iterations):
            text = redact(await model(messages))
            reply = read_reply(text, lenient_fences=lenient_fences)
            if isinstance(reply, Final):
                steps.append(FinalStep(type="final", content=reply.content))
                return reply.content, steps
            result = await asyncio.to_thread(call_tool, root, reply.name, reply.args, redact)
            steps.append(ToolStep(type="tool", name=reply.name, args=reply.args, result=result))
            messages += [
                {"role": "assistant", "content": text},
                {"role": "user", "content": tool_result(reply.name, result)},
            ]
            if reply.name == "write_file":
                written.add(reply.args["filePath"])
        raise LiteError("Exceeded max iterations")
    except LiteError as error:
        error.written = written
        raise
