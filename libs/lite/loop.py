"""The loop: ask the model, use the tool that it names, until it answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict

from libs.lite.errors import LiteError
from libs.lite.protocol import PROMPT, Final, read_reply, tool_result
from libs.lite.tools import call_tool

__all__ = ["MAX_CALLS", "FinalStep", "Model", "Step", "ToolStep", "run_lite"]

MAX_CALLS = 6
"""Model calls of one run."""


class ToolStep(TypedDict):
    """A tool that was used."""

    type: Literal["tool"]
    name: str
    args: dict[str, Any]
    result: str


class FinalStep(TypedDict):
    """The answer, which is the last step."""

    type: Literal["final"]
    content: str


Step = ToolStep | FinalStep

Model = Callable[[Sequence[Mapping[str, str]]], Awaitable[str]]
"""Answers a conversation, OpenAI's messages, with text."""


async def run_lite(
    task: str,
    model: Model,
    root: Path,
    *,
    lenient_fences: bool = False,
    redact: Callable[[str], str] = str,
) -> tuple[str, list[Step]]:
    """Carry out a task in a folder, and return the model's answer and the steps that led to it.

    Cancelling it breaks off a model call; a tool, which takes no time worth the name, is let finish.

    Args:
        task: what the person wants.
        model: what is asked.
        root: the folder; made where it is missing.
        lenient_fences: see `read_reply`.
        redact: takes secrets out of what comes in from files and from the model.

    Raises:
        InvalidOutput: a reply is not what the protocol allows.
        ToolFailed, PathRefused: a tool failed, or there is no such tool.
        ModelFailed: the model did not answer.
        LiteError: "Exceeded max iterations": no answer after `MAX_CALLS` model calls.
    """
    messages = [{"role": "system", "content": PROMPT}, {"role": "user", "content": task}]
    steps: list[Step] = []
    for _ in range(MAX_CALLS):
        said = redact(await model(messages))
        reply = read_reply(said, lenient_fences=lenient_fences)
        if isinstance(reply, Final):
            steps.append(FinalStep(type="final", content=reply.content))
            return reply.content, steps
        result = redact(await asyncio.to_thread(call_tool, root, reply.name, reply.args))
        steps.append(ToolStep(type="tool", name=reply.name, args=reply.args, result=result))
        messages += [
            {"role": "assistant", "content": said},
            {"role": "user", "content": tool_result(reply.name, result)},
        ]
    raise LiteError("Exceeded max iterations")
