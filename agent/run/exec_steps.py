"""Reads the steps of the one-tool agent: its programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import ToolMessage

from agent.run.deep_steps import DeepSteps
from agent.run.run_events import CommandEnded, CommandStarted, Event, Output, ToolEnded
from libs.exec_tool import NAME, outcome_in
from libs.sandbox import Execution

__all__ = ["ExecSteps"]


class ExecSteps(DeepSteps):
    """As the steps of the deep agent, where each call runs a program."""

    def _start_of(
        self, call: Mapping[str, Any], *, subagent: bool, granted: str | None
    ) -> CommandStarted | None:
        if call["name"] != NAME:
            return None
        code = str(call["args"].get("code", ""))
        return CommandStarted(call["id"], _language(call), code, subagent, granted)

    def _end_of(self, call: Mapping[str, Any], message: ToolMessage) -> Sequence[Event]:
        if call["name"] != NAME:
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
            # A program that reports a failure in its result exits with 0: count it as failed.
            exit_code=code or 1 if error and code is not None else code,
            seconds=told["metrics"]["total"],
        )
        ended = CommandEnded(message.tool_call_id, execution)
        # The program did not print the error class. Where no program ran, the end shows it.
        return [Output(message.tool_call_id, f"{why}\n"), ended] if why and code is not None else [ended]


def _language(call: Mapping[str, Any]) -> str:
    """Return the language of a call, whose arguments may be wrong."""
    return "bash" if call["args"].get("language") == "bash" else "python"
