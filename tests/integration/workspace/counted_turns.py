"""Turns that each add a line to one file of the thread, in a runtime."""

from __future__ import annotations

from pathlib import Path

import yaml

from agent.run.runtime import Runtime

__all__ = ["SCRIPT", "content", "place", "turn"]

SCRIPT = yaml.safe_dump(
    [
        reply
        for turn in (1, 2, 3)
        for reply in (
            {"tool_calls": [{"name": "execute", "args": {"command": f"echo {turn} >> /results/a"}}]},
            {"text": "Done."},
        )
    ]
)


async def turn(runtime: Runtime, words: str, *, thread: str = "t") -> None:
    """Carry out a turn of a person."""
    run = await runtime.run(thread, "deep")
    async for _ in run.begin(words):
        pass


def place(thread: str = "t") -> Path:
    """Return the path of the file."""
    return Path("workspace", "threads", thread, "results", "a")


def content(thread: str = "t") -> str:
    """Return the content of the file; empty without the file."""
    return place(thread).read_text() if place(thread).exists() else ""
