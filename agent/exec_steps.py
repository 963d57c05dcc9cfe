"""The steps of the one-tool agent: its programs."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import ToolMessage

from agent.deep_steps import DeepSteps
from agent.events import CommandEnded, CommandStarted, Event, Execution, Output, ToolEnded

__all__ = ["ExecSteps", "outcome_in"]

_CALLED = "execute_code"


class ExecSteps(DeepSteps):
    """As those of the deep agent; a call is a program, and its end an execution."""

    def _start_of(
        self, call: Mapping[str, Any], *, subagent: bool, granted: str | None
    ) -> CommandStarted | None:
        if call["name"] != _CALLED:
            return None
        code = str(call["args"].get("code", ""))
        return CommandStarted(call["id"], _language(call), code, subagent, granted)

    def _end_of(self, call: Mapping[str, Any], message: ToolMessage, since: float) -> Sequence[Event]:
        if call["name"] != _CALLED:
            return []
        told = outcome_in(message)
        if told is None:
            return [ToolEnded(message.tool_call_id, call["name"], message.text)]
        error, code = told["error"], told["metrics"]["exit_code"]
        why = f"[{error['class']}: {error['message']}]" if error else ""
        shown = [told["stdout"], told["stderr"], why]
        execution = Execution(
            language=_language(call),
            code=str(call["args"].get("code", "")),
            output="\n".join(part.rstrip("\n") for part in shown if part),
            # One that says itself that it failed ended with 0, and has failed all the same.
            exit_code=code or 1 if error and code is not None else code,
            seconds=told["metrics"]["total"] or round(time.monotonic() - since, 3),
        )
        ended = CommandEnded(message.tool_call_id, execution)
        # Nothing has printed the class; where nothing has run, the end itself says it.
        return [Output(message.tool_call_id, f"{why}\n"), ended] if why and code is not None else [ended]


def _language(call: Mapping[str, Any]) -> str:
    """That of a call, which need not be a good one."""
    return "bash" if call["args"].get("language") == "bash" else "python"


def outcome_in(message: ToolMessage) -> dict[str, Any] | None:
    """The result that a call's answer holds, as `ExecResult.as_json` gives it; None for words."""
    if isinstance(message.artifact, dict) and "metrics" in message.artifact:
        return message.artifact
    try:
        told = json.loads(message.text)
    except (ValueError, RecursionError):
        return None
    return told if isinstance(told, dict) and "metrics" in told else None
