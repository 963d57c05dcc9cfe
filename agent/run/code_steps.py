"""Reads the steps of the code-block agent: blocks that its loop reports (see `block_loop.py`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from langgraph.types import Command, StateSnapshot

from agent.run.run_events import CommandEnded, CommandStarted, Event
from libs.sandbox import Execution

__all__ = ["CodeSteps"]


class CodeSteps:
    """Reads the `custom` stream. Implements `agent.run.run_steps.Steps`."""

    def read(self, mode: str, data: Any, *, subagent: bool) -> Iterator[Event]:
        """See `Steps.read`."""
        if mode != "custom" or not isinstance(data, dict):
            return
        match data.get("type"):
            case "code":
                granted = data.get("granted")
                yield CommandStarted(data["id"], data["language"], data["code"], subagent, granted)
            case "execution":
                execution = Execution(
                    language=data["language"],
                    code=data["code"],
                    output=data["output"],
                    exit_code=data["exit_code"],
                    seconds=data["seconds"],
                )
                yield CommandEnded(data["id"], execution)

    def cut_off(self, state: StateSnapshot) -> tuple[str, Any] | None:
        """See `Steps.cut_off`: the loop tells the model, before its next reply (see `CodeLoop`)."""
        # Not `state.next`: it leaves out a step that has ended before it was saved.
        if all(task.name != "run" for task in state.tasks):
            return None
        return "run", Command(goto="model", update={"nudges": 0})
