"""`code-agent chat`: runs a conversation at a terminal or with a pipe."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from typing import Any, Literal

from rich.console import Console

from agent.chat.chat_session import Chat
from agent.chat.piped import PipedLines
from agent.chat.slash_commands import COMMANDS
from agent.run import GRAPH_IDS, complaint, open_runtime
from agent.secrets import KNOWN
from agent.settings import THREADS
from agent.terminal import STOPPED
from agent.terminal.typed_answers import TypedAnswers, TypedLines

__all__ = ["chat_command"]

HISTORY = THREADS.parent / "chat-history"
"""File of the typed lines, below the working directory."""


def chat_command(
    *, agent: str, approve: Literal["ask", "auto"] | None, model: str | None, thread: str | None
) -> int:
    """Hold a conversation and return the exit status of the program.

    0 ended, 130 ended by Ctrl-C. With a pipe the status of the last turn: 1 error, 2 bad usage or settings,
    3 approval pending, 4 a budget or limit.
    """
    for stream in (sys.stdin, sys.stdout):
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    if agent not in ("auto", *GRAPH_IDS):
        return _fail(f"There is no agent {agent}. There are: {', '.join(['auto', *GRAPH_IDS])}.", 2)
    given: dict[str, Any] = {"model": model, "approvals": approve}
    overrides = {name: value for name, value in given.items() if value is not None}
    try:
        return asyncio.run(_chat(agent, thread, overrides, options=("--model", model) if model else ()))
    except KeyboardInterrupt:  # before the first turn
        return STOPPED
    except Exception as error:
        if (told := complaint(error)) is None:
            raise
        return _fail(*told)


def _fail(text: str, status: int) -> int:
    Console(stderr=True).print(KNOWN(text), style="bold red", markup=False, highlight=False, soft_wrap=True)
    return status


async def _chat(agent: str, thread: str | None, overrides: dict[str, Any], *, options: Sequence[str]) -> int:
    at_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    async with open_runtime(**overrides) as runtime:
        console = Console(highlight=False, emoji=False)
        answers = TypedAnswers() if at_terminal else None
        chat = Chat(
            runtime, console, COMMANDS, answers=answers, thread_id=thread, asked=agent, options=options
        )
        if not at_terminal:
            return await chat.converse(PipedLines())
        suggest: Callable[[str], Any] = chat.suggest
        status = await chat.converse(await asyncio.to_thread(TypedLines, HISTORY, suggest))
        return status if status == STOPPED else 0
