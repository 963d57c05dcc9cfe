"""Scripted models, and runners with real containers, for the tests of the one-tool agent."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage
from pydantic import PrivateAttr

from libs.exec_tool.program_runner import CodeRunner
from libs.exec_tool.standalone_tool import fresh_sandboxes
from libs.models.scripted_model import Conversation, Reply, ScriptedChatModel, ToolUse
from libs.persistence.thread_database import SqliteDatabase
from libs.persistence.thread_store import ThreadStore
from libs.sandbox import SandboxLimits
from libs.sandbox.docker.engine import shared_client
from libs.sandbox.docker.strays import NAME_LABEL
from tests.support.waiting import eventually

__all__ = ["IMAGE", "SMALL", "containers", "playing", "program", "runner", "spare_ready"]

IMAGE = os.environ.get("SANDBOX_IMAGE", "code-execution-agent")

SMALL = SandboxLimits(memory=256 << 20, tmp=16 << 20, pids=64)
"""Limits that are reached quickly."""


@contextmanager
def runner(
    folder: Path, *, name: str = "", seconds: float = 60, keep: bool = True, **options: Any
) -> Iterator[CodeRunner]:
    """Give a runner that saves the files of threads in a folder.

    Args:
        folder: the folder of the database, and the home of the sandboxes.
        name: the name of the sandboxes, random by default.
        seconds: the time limit of an execution.
        keep: whether files are saved.
        options: options of the sandboxes, and, with the prefix `runner_`, of the runner.
    """
    ours = {
        key.removeprefix("runner_"): options.pop(key) for key in list(options) if key.startswith("runner_")
    }
    name = name or f"test-exec-{secrets.token_hex(3)}"
    database = SqliteDatabase(folder / "memory.sqlite")
    sandboxes = fresh_sandboxes(image=IMAGE, name=name, home=folder, **{"limits": SandboxLimits(), **options})
    files = ThreadStore(database) if keep else None
    made = CodeRunner(sandboxes, **{"seconds": seconds, "files": files, **ours})
    try:
        yield made
    finally:
        made.close()
        database.close()
        assert containers(name) == []


def containers(name: str, *, running: bool = False) -> list[str]:
    """Return the ids of the containers of this name: all of them, or those that run."""
    found = shared_client().api.containers(all=not running, filters={"label": f"{NAME_LABEL}={name}"})
    return [each["Id"] for each in found]


def spare_ready(run: CodeRunner) -> None:
    """Wait until a spare sandbox is ready, so that the next execution spends no time on a start.

    On a busy machine a start may fail. Nothing but another use starts the spare again.
    """

    def ready() -> bool:
        run._sandboxes.prepare()
        return len(run._sandboxes._ready) > 0

    eventually(ready, 60)


class Recording(ScriptedChatModel):
    """Plays a script and records the requests."""

    _requests: list[list[BaseMessage]] = PrivateAttr(default_factory=list)

    def _next(self, messages: Any) -> AIMessage:
        self._requests.append(list(messages))
        return super()._next(messages)


def program(code: str = "print(3)", **args: Any) -> Reply:
    """A reply that calls `execute_code`."""
    return Reply(tool_calls=(ToolUse(name="execute_code", args={"code": code, **args}),))


def playing(*replies: Reply | str) -> Recording:
    """A model with these replies. An answer made from a program's output uses up one reply."""
    script = tuple(Reply(text=reply) if isinstance(reply, str) else reply for reply in replies)
    return Recording(conversations=(Conversation(replies=script),))
