"""Turns code blocks of models without tools into calls, and asks again where a call is missing."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, NotRequired
from uuid import uuid4

from langchain.agents.middleware import hook_config
from langchain.agents.middleware.types import (
    AgentMiddleware,
    AgentState,
    ModelRequest,
    ModelResponse,
    PrivateStateAttr,
)
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolCall, ToolMessage
from langgraph.runtime import Runtime

from agent.models import calls_tools
from libs.code_blocks import PROBLEMS, Reading, read_reply, without_thoughts
from libs.exec_tool import NAME
from libs.middleware.program_messages import by_person, told

__all__ = ["CallsInText"]

_NUDGE = (
    "Nothing has been run yet for the latest request. If any of your answer depends on files, on the date or "
    "on a calculation, do the task with one whole program. If none of it does, give the whole answer again."
)
_SEVERAL = "several_languages"
_EMPTY = "empty"
_BLOCK = "Send one whole program, in a block that begins with ```python (or ```bash) and ends with ```."
_OR_ANSWER = "If it was part of your answer, give the whole answer again."
_MAY_BE_ANSWER = {
    "no_language": f"Nothing was run: the block does not say its language. {_BLOCK} {_OR_ANSWER}",
    "other_language": f"Nothing was run: only Python and bash can run here. {_BLOCK} {_OR_ANSWER}",
    "imitated_call": f"Nothing was run: calls in JSON or XML mean nothing here. {_BLOCK} {_OR_ANSWER}",
}
_NO_CALL = {
    **_MAY_BE_ANSWER,
    "empty_block": f"Nothing was run: the block was empty. {_BLOCK}",
    _EMPTY: "Your reply was empty. Go on with the task, or say what the answer is.",
    _SEVERAL: "Nothing of your reply was run: it has programs in several languages. Send one whole program "
    "in one language, in one block, that does all of the task.",
    **{problem: f"Nothing of your reply was run. {text}" for problem, text in PROBLEMS.items()},
    "too_long": "Your reply was too long, so nothing of it was run. Send one whole program that is shorter.",
}
"""Why a reply is no call -> message to the model. It is asked again; then `_MAY_BE_ANSWER` is the answer."""
_WHY = "no_call"
"""Key in the metadata of a reply whose blocks are no call."""
_MOST_NUDGES = 1
"""Times in a row that the model is asked again."""
_STOPPED = (
    "I stopped here: I was asked again, and my last reply holds neither a program that can run nor an "
    "answer. The task is not done."
)


class TextState(AgentState[Any]):
    exec_nudges: NotRequired[Annotated[int, PrivateStateAttr]]
    exec_status: NotRequired[Annotated[str | None, PrivateStateAttr]]


class CallsInText(AgentMiddleware[TextState, Any, Any]):
    """Asks a model without tools for a block, and turns the block into a call.

    List this middleware after budget and approvals, so that both see the calls made here.

    Args:
        prompt: the system prompt of the agent.
        in_text: the system prompt for a model without tools.
    """

    state_schema = TextState

    def __init__(self, prompt: str, in_text: str) -> None:
        super().__init__()
        self._prompt = prompt
        self._in_text = in_text

    def before_agent(self, state: TextState, runtime: Runtime[Any]) -> dict[str, Any]:  # noqa: ARG002
        return {"exec_nudges": 0}

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        if calls_tools(request.model):
            return handler(request)
        return _with_call(handler(self._as_text(request)))

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        if await asyncio.to_thread(calls_tools, request.model):
            return await handler(request)
        return _with_call(await handler(self._as_text(request)))

    def _as_text(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        """Return the request without tools, with calls and results as text."""
        before = request.system_message.text if request.system_message else ""
        return request.override(
            tools=[],
            system_message=SystemMessage(before.replace(self._prompt, self._in_text)),
            messages=[_as_text(message) for message in request.messages],
        )

    @hook_config(can_jump_to=["model"])
    def after_model(self, state: TextState, runtime: Runtime[Any]) -> dict[str, Any] | None:  # noqa: ARG002
        """Ask again once where the first reply has no program, or a reply is empty or no call."""
        reply = state["messages"][-1]
        if not isinstance(reply, AIMessage):
            return None
        if reply.tool_calls:
            return {"exec_nudges": 0}
        why = str(reply.response_metadata.get(_WHY, ""))
        if not why and not without_thoughts(reply.text).strip():
            why = _EMPTY
        asked = state.get("exec_nudges", 0) >= _MOST_NUDGES
        # Text is an answer after a program has run, or when the model repeats it after the nudge.
        if asked:
            if not why or why in _MAY_BE_ANSWER:
                return None
            # Some providers refuse two assistant messages in a row.
            last = reply.model_copy(update={"content": f"{reply.text}\n\n{_STOPPED}".lstrip()})
            return {"messages": [last], "exec_status": "no_execution"}
        if not why and _has_called(state):
            return None
        # Providers refuse empty messages.
        empty = [] if reply.text.strip() else [reply.model_copy(update={"content": "(no reply)"})]
        asking = [*empty, told(_NO_CALL.get(why, _NUDGE))]
        return {"messages": asking, "exec_nudges": 1, "jump_to": "model"}


def _has_called(state: TextState) -> bool:
    """Return whether a tool was called in this run."""
    run = list(itertools.takewhile(lambda message: not by_person(message), reversed(state["messages"])))
    unreadable = {
        call["id"] for message in run if isinstance(message, AIMessage) for call in message.invalid_tool_calls
    }
    return any(isinstance(message, ToolMessage) and message.tool_call_id not in unreadable for message in run)


def _as_text(message: Any) -> Any:
    if isinstance(message, ToolMessage):
        return HumanMessage(f"What came of it:\n{message.text}", id=message.id)
    if isinstance(message, AIMessage) and message.tool_calls:
        blocks = [
            f"```{call['args'].get('language', 'python')}\n{call['args'].get('code', '')}\n```"
            for call in message.tool_calls
        ]
        return AIMessage("\n\n".join(blocks), id=message.id)
    return message


def _with_call(response: ModelResponse[Any]) -> ModelResponse[Any]:
    """Turn the blocks of a reply into one call; blocks of one language are joined in order."""
    reply = response.result[-1]
    if not isinstance(reply, AIMessage):
        return response
    reading = read_reply(without_thoughts(reply.text))
    languages = {block.language for block in reading.blocks}
    why = reading.problem or (_SEVERAL if len(languages) > 1 else "" if languages else _no_program(reading))
    if not languages and not why:
        return response
    if why:
        metadata = {**reply.response_metadata, _WHY: why}
        calling = reply.model_copy(update={"response_metadata": metadata})
    else:
        code = "\n\n".join(block.code for block in reading.blocks)
        call = ToolCall(
            name=NAME,
            args={"code": code, "language": languages.pop()},
            id=f"call_{uuid4().hex}",
            type="tool_call",
        )
        calling = reply.model_copy(update={"content": "", "tool_calls": [call]})
    return ModelResponse(
        result=[*response.result[:-1], calling], structured_response=response.structured_response
    )


def _no_program(reading: Reading) -> str:
    """Return why a reply without a program may have been meant as one, or ""."""
    reasons = {
        "empty_block": reading.empty,
        "no_language": reading.untagged,
        "other_language": reading.others,
        "imitated_call": reading.imitated_call,
    }
    return next((why for why, applies in reasons.items() if applies), "")
