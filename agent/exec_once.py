"""What follows an execution of the one-tool agent: the answer, another try, or the end.

A program that succeeds ends the run: what it printed is the answer, and no model is asked what it thinks of
it. One that fails goes back to the model, EXEC_REPAIRS times. What a person refuses always does.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, NotRequired

from langchain.agents.middleware import hook_config
from langchain.agents.middleware.types import AgentMiddleware, AgentState, PrivateStateAttr
from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langgraph.runtime import Runtime

from agent.exec_steps import outcome_in
from libs.exec_tool.outcome import cut

__all__ = ["OneExecution", "answer_of"]

_SHOWN = 4_000
"""Characters of a program's output that are the answer where it printed no JSON."""
_MOST_DATA = 100_000
_MOST_NAMED = 20


class OnceState(AgentState[Any]):
    exec_failures: NotRequired[Annotated[int, PrivateStateAttr]]
    """Replies of this run whose programs failed."""
    exec_status: NotRequired[Annotated[str | None, PrivateStateAttr]]
    """How the run has ended, where not by the model's word."""


class OneExecution(AgentMiddleware[OnceState, Any, Any]):
    """List it before the budget, whose word on how a run ended comes first.

    Args:
        repairs: programs that failed which the model may mend, in one run.
        prepare: is called when a run begins, as a program is about to come.
    """

    state_schema = OnceState

    def __init__(self, repairs: int, prepare: Callable[[], None]) -> None:
        super().__init__()
        self._repairs = repairs
        self._prepare = prepare

    def before_agent(self, state: OnceState, runtime: Runtime[Any]) -> dict[str, Any]:  # noqa: ARG002
        """Begin a run."""
        self._prepare()
        return {"exec_failures": 0, "exec_status": None}

    @hook_config(can_jump_to=["end"])
    def before_model(self, state: OnceState, runtime: Runtime[Any]) -> dict[str, Any] | None:  # noqa: ARG002
        """End the run where nothing is left to ask the model."""
        answers = _latest_answers(state["messages"])
        outcomes = [outcome for answer in answers if (outcome := outcome_in(answer))]
        if not outcomes:
            return None
        failed = [outcome for outcome in outcomes if outcome["error"]]
        if failed:
            failures = state.get("exec_failures", 0) + 1
            if failures <= self._repairs:
                return {"exec_failures": failures}
            last = AIMessage(_failed(failed[-1], failures))
            return {"messages": [last], "exec_failures": failures, "exec_status": "error", "jump_to": "end"}
        if len(outcomes) < len(answers):
            return None  # a person has refused some: the model reads why
        return {"messages": [AIMessage(answer_of(outcomes))], "jump_to": "end"}

    def after_agent(self, state: OnceState, runtime: Runtime[Any]) -> dict[str, Any] | None:  # noqa: ARG002
        """Say how the run ended."""
        status = state.get("exec_status")
        return {"status": status} if status else None


def answer_of(outcomes: Sequence[Mapping[str, Any]]) -> str:
    """The answer that programs have given: their words, their data, their files."""
    return "\n\n".join(filter(None, map(_answer, outcomes)))


def _answer(outcome: Mapping[str, Any]) -> str:
    result, parts = outcome["result"], []
    if isinstance(result, dict) and isinstance(result.get("answer"), str):
        parts.append(result["answer"].strip())
        result = {key: value for key, value in result.items() if key not in ("answer", "ok")}
    if isinstance(result, str):
        parts.append(result)
    elif result is not None and result != {}:
        shown = cut(json.dumps(result, indent=2, ensure_ascii=False), _MOST_DATA)
        parts.append(f"```json\n{shown}\n```")
    elif not parts:
        parts.append(cut(outcome["stdout"].strip(), _SHOWN) or "The program ended well and printed nothing.")
    if files := outcome["files"]:
        named = [f"{file['path']} ({file['size']:,} bytes)" for file in files[:_MOST_NAMED]]
        more = f" and {len(files) - _MOST_NAMED} more" if len(files) > _MOST_NAMED else ""
        parts.append(f"Files: {', '.join(named)}{more}")
    return "\n\n".join(parts)


def _failed(outcome: Mapping[str, Any], tries: int) -> str:
    error = outcome["error"]
    what = "the program" if tries == 1 else f"{tries} programs"
    return (
        f"I stopped here: {what} failed, and the task is not done. {error['message']} ({error['class']}) "
        f"{error['hint']}\n\nSend another message to go on; EXEC_REPAIRS says how often a program is mended."
    )


def _latest_answers(messages: Sequence[AnyMessage]) -> list[ToolMessage]:
    """The answers to the calls of the latest reply, in order; none where something was said since."""
    found: list[ToolMessage] = []
    for message in reversed(messages):
        if not isinstance(message, ToolMessage):
            break
        found.insert(0, message)
    return found
