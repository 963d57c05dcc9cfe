"""Deep agents with a real shell, for tests of approvals and budgets. Commands write to `ran.txt`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from deepagents import create_deep_agent
from deepagents.backends import LocalShellBackend
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.types import Command

from libs.middleware.approvals.addressed_graph import AddressedGraph, answer_by_id
from libs.middleware.approvals.approval_middleware import ApprovalMiddleware
from libs.middleware.approvals.gate_rules import InterruptMode, InterruptOn
from libs.middleware.subagents import bound_subagents
from libs.models.scripted_model import Conversation, Reply, ScriptedChatModel, ToolUse

GATED: InterruptOn = {
    "execute": {"allowed_decisions": ["approve", "reject"]},
    "edit_file": {"allowed_decisions": ["approve", "reject", "edit"]},
}
APPROVE = {"type": "approve"}
COMMAND = {"type": "approve", "scope": "command"}
TOOL = {"type": "approve", "scope": "tool"}
REJECT = {"type": "reject", "message": "not now"}


class Metered(ScriptedChatModel):
    """Reports 1,000 tokens for every call."""

    def _next(self, messages: Any) -> AIMessage:
        usage = {"input_tokens": 900, "output_tokens": 100, "total_tokens": 1000}
        return super()._next(messages).model_copy(update={"usage_metadata": usage})


def run(word: str, **more: Any) -> ToolUse:
    """Return a shell call that appends `word` to `ran.txt`."""
    return ToolUse(name="execute", args={"command": f"echo {word} >> ran.txt", **more})


def task(name: str, kind: str = "general-purpose") -> ToolUse:
    """Return a call that starts a subagent with the conversation `name`."""
    return ToolUse(name="task", args={"description": name, "subagent_type": kind})


def scripted(
    scripts: Mapping[str, Sequence[str | Sequence[ToolUse]]],
    model: type[ScriptedChatModel] = ScriptedChatModel,
) -> ScriptedChatModel:
    """Return a model with texts and tool calls for each first message."""
    return model(
        conversations=tuple(
            Conversation(
                when=when,
                replies=tuple(
                    Reply(text=turn) if isinstance(turn, str) else Reply(tool_calls=tuple(turn))
                    for turn in turns
                ),
            )
            for when, turns in scripts.items()
        )
    )


def agent(
    folder: Path,
    model: BaseChatModel,
    *,
    checkpointer: Any = None,
    middleware: Sequence[Any] | None = None,
    subagents: Sequence[Any] = (),
    before: Sequence[Any] = (),
    interrupt_mode: InterruptMode = "batched",
) -> AddressedGraph:
    """Build a deep agent with one approval gate for itself and all subagents."""
    binding = (
        [ApprovalMiddleware(GATED, interrupt_mode=interrupt_mode)] if middleware is None else list(middleware)
    )
    return answer_by_id(
        create_deep_agent(
            model,
            backend=LocalShellBackend(root_dir=folder, virtual_mode=False),
            middleware=[*before, *binding],
            subagents=bound_subagents(binding, subagents),
            checkpointer=checkpointer,
        )
    )


def thread(name: str = "1") -> dict[str, Any]:
    return {"configurable": {"thread_id": name}}


def say(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


def decide(*decisions: Any) -> Command[Any]:
    return Command(resume={"decisions": list(decisions)})


def ran(folder: Path) -> list[str]:
    """Return the words of all commands that ran, in order."""
    log = folder / "ran.txt"
    return log.read_text().split() if log.exists() else []


async def after_restart(folder: Path, model: BaseChatModel, given: Any, **options: Any) -> dict[str, Any]:
    """Continue the thread with a new graph on the same database."""
    async with AsyncSqliteSaver.from_conn_string(str(folder / "threads.sqlite")) as saver:
        graph = agent(folder, model, checkpointer=saver, **options)
        result: dict[str, Any] = await graph.ainvoke(given, thread())
        return result


def questions(result: Mapping[str, Any]) -> list[Any]:
    """Return the values of the pending interrupts."""
    return [interrupt.value for interrupt in result.get("__interrupt__", ())]


def waiting(result: Mapping[str, Any]) -> dict[str, str]:
    """Return, for each question, the word of its first command and its id."""
    return {
        each.value["action_requests"][0]["args"]["command"].split()[1]: each.id
        for each in result.get("__interrupt__", ())
    }


def assert_answered_once(messages: Sequence[Any]) -> None:
    """Assert that every tool call has exactly one answer, as providers require."""
    calls = [call["id"] for message in messages for call in getattr(message, "tool_calls", [])]
    answers = [message.tool_call_id for message in messages if message.type == "tool"]
    assert sorted(calls) == sorted(answers)
