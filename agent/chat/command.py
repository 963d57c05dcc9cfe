"""`code-agent chat`: puts installation, terminal or pipe, and conversation together."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any, Literal

from rich.console import Console

from agent.agents import GRAPH_IDS
from agent.chat.piped import PipedLines
from agent.chat.session import Chat
from agent.config import SettingsError
from agent.installation import open_installation
from agent.sinks import KNOWN
from agent.stop import STOPPED
from agent.threads import THREADS
from libs.models.scripted import ScriptError
from libs.persistence.errors import CheckpointerUnavailable

__all__ = ["chat_command"]

HISTORY = THREADS.parent / "chat-history"
"""The lines that were typed, in the working directory."""


def chat_command(
    *, agent: str, approve: Literal["ask", "auto"] | None, model: str | None, thread: str | None
) -> int:
    """Hold a conversation and return the exit status of the program.

    0 ended, and in a pipe that of the last turn: 1 error, 2 bad usage or settings, 3 approval pending, 4 a
    budget or limit; 130 ended by Ctrl-C.
    """
    for stream in (sys.stdin, sys.stdout):
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    if agent not in ("auto", *GRAPH_IDS):
        return _fail(f"There is no agent {agent}. There are: {', '.join(['auto', *GRAPH_IDS])}.", 2)
    given: dict[str, Any] = {"model": model, "approvals": approve}
    overrides = {name: value for name, value in given.items() if value is not None}
    try:
        return asyncio.run(_chat(agent, thread, overrides))
    except (SettingsError, ScriptError) as error:
        return _fail(str(error), 2)
    except CheckpointerUnavailable as error:
        return _fail(f"{error} {error.hint}", 1)
    except KeyboardInterrupt:  # before there was anything to stop
        return STOPPED


def _fail(text: str, status: int) -> int:
    Console(stderr=True).print(KNOWN(text), style="bold red", markup=False, highlight=False, soft_wrap=True)
    return status


async def _chat(agent: str, thread: str | None, overrides: dict[str, Any]) -> int:
    at_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    async with open_installation(**overrides) as installation:
        console = Console(highlight=False, emoji=False)
        if not at_terminal:
            chat = Chat(installation, console, answers=None, thread_id=thread, asked=agent)
            return await chat.converse(PipedLines())
        from agent.chat.typed import TypedAnswers, TypedLines

        chat = Chat(installation, console, answers=TypedAnswers(), thread_id=thread, asked=agent)
        suggest: Callable[[str], Any] = chat.suggest
        status = await chat.converse(await asyncio.to_thread(TypedLines, HISTORY, suggest))
        return status if status == STOPPED else 0
