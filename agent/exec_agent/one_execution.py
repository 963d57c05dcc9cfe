"""Decides what follows an execution of the one-tool agent: the answer, another try, or the end.

A successful program ends the run, and its output is the answer. The error of a failed program goes back to
the model, at most EXEC_REPAIRS times. A person's refusal always goes back to the model.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, NotRequired

from langchain.agents.middleware import hook_config
from langchain.agents.middleware.types import AgentMiddleware, AgentState, PrivateStateAttr
from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langgraph.runtime import Runtime

from libs.exec_tool import NO_VALUE, outcome_in
from libs.middleware.program_messages import by_person
from libs.sandbox import in_one_line
from libs.sandbox.host import shortened

__all__ = ["OneExecution"]

_SHOWN = 4_000
"""Characters of the output that are the answer of a program without JSON."""
_MOST_DATA = 100_000
_MOST_NAMED = 20


class OnceState(AgentState[Any]):
    exec_failures: NotRequired[Annotated[int, PrivateStateAttr]]
    """Replies of this run with failed programs."""
    exec_status: NotRequired[Annotated[str | None, PrivateStateAttr]]
    """Status of the run, if it did not end with an answer of the model."""


class OneExecution(AgentMiddleware[OnceState, Any, Any]):
    """List this middleware before the budget, so that the status of the budget wins.

    Args:
        repairs: failed programs that the model may correct in one run.
        prepare: is called when a run begins, to prepare a sandbox.
    """

    state_schema = OnceState

    def __init__(self, repairs: int, prepare: Callable[[], None]) -> None:
        super().__init__()
        self._repairs = repairs
        self._prepare = prepare

    def before_agent(self, state: OnceState, runtime: Runtime[Any]) -> dict[str, Any]:  # noqa: ARG002
        self._prepare()
        return {"exec_failures": 0, "exec_status": None}

    @hook_config(can_jump_to=["end"])
    def before_model(self, state: OnceState, runtime: Runtime[Any]) -> dict[str, Any] | None:  # noqa: ARG002
        """End the run after a successful program, or after too many failures."""
        answers = _latest_answers(state["messages"])
        outcomes = [outcome for answer in answers if (outcome := outcome_in(answer))]
        if not outcomes:
            return None
        failed = [outcome for outcome in outcomes if outcome["error"]]
        if failed:
            failures = state.get("exec_failures", 0) + 1
            if failures <= self._repairs:
                return {"exec_failures": failures}
            last = AIMessage("\n\n".join([*_done(state["messages"]), _failed(failed[-1], failures)]))
            return {"messages": [last], "exec_failures": failures, "exec_status": "error", "jump_to": "end"}
        if len(outcomes) < len(answers):
            return None  # the model reads why a person refused a call
        return {"messages": [AIMessage("\n\n".join(_done(state["messages"])))], "jump_to": "end"}

    def after_agent(self, state: OnceState, runtime: Runtime[Any]) -> dict[str, Any] | None:  # noqa: ARG002
        status = state.get("exec_status")
        return {"status": status} if status else None


def _done(messages: Sequence[AnyMessage]) -> list[str]:
    """Return the answers of the programs of this run that succeeded, also beside one that failed."""
    run = itertools.takewhile(lambda message: not by_person(message), reversed(messages))
    outcomes = [outcome for each in run if isinstance(each, ToolMessage) and (outcome := outcome_in(each))]
    return [_answer(outcome) for outcome in reversed(outcomes) if not outcome["error"]]


def _answer(outcome: Mapping[str, Any]) -> str:
    """Return the answer of a program: its text, data and files, what it removed, and what they lack."""
    result = outcome["result"]
    parts: list[str] = []
    if isinstance(result, dict) and isinstance(result.get("answer"), str):
        parts += filter(None, [result["answer"].strip()])
        hidden = {"answer", "ok"} if result.get("ok") is True else {"answer"}  # `ok` may be a figure
        result = {key: value for key, value in result.items() if key not in hidden}
    if isinstance(result, str):
        parts += [result] if result.strip() else []
    elif result is not None and result != {}:
        shown = shortened(json.dumps(result, indent=2, ensure_ascii=False), _MOST_DATA)
        parts.append(f"```json\n{shown}\n```")
    if not parts:
        parts.append(_printed(outcome))
    if files := outcome["files"]:
        parts.append(
            _listed("Files", [f"{in_one_line(each['path'])} ({each['size']:,} bytes)" for each in files])
        )
    if removed := outcome.get("removed"):
        parts.append(_listed("Removed", list(map(in_one_line, removed))))
    # An output without JSON is an answer, too.
    if note := outcome.get("note", "").removeprefix(NO_VALUE).strip():
        parts.append(f"[{note}]")
    return "\n\n".join(parts)


def _listed(title: str, names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"{title}: {', '.join(names[:_MOST_NAMED])}{more}"


def _printed(outcome: Mapping[str, Any]) -> str:
    """Return the output of a program that has no other answer."""
    # Shortened before it is stripped: a line about what was cut earlier is looked for in the middle.
    if outcome["stdout"].strip():
        return shortened(outcome["stdout"], _SHOWN).strip()
    if outcome["stderr"].strip():
        errors = shortened(outcome["stderr"], _SHOWN).strip()
        return f"The program succeeded and printed only to standard error:\n\n{errors}"
    return "The program succeeded and printed nothing."


def _failed(outcome: Mapping[str, Any], tries: int) -> str:
    error = outcome["error"]
    what = "1 try" if tries == 1 else f"{tries} tries"
    unknown = error["class"] == "interrupted"
    end = "nobody knows how much of the task is done" if unknown else "the task is not done"
    return (
        f"I stopped here: {what} failed, and {end}. {error['message']} ({error['class']}) "
        f"{error['hint']}\n\nSend another message to go on; EXEC_REPAIRS says how often a program is mended."
    )


def _latest_answers(messages: Sequence[AnyMessage]) -> list[ToolMessage]:
    """Return the tool messages at the end of a conversation, in order."""
    last = itertools.takewhile(lambda message: isinstance(message, ToolMessage), reversed(messages))
    return [message for message in last if isinstance(message, ToolMessage)][::-1]
