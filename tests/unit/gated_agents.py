"""Deep agents with a real shell, for the tests of approvals and budgets: what ran is in `ran.txt`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from deepagents import create_deep_agent
from deepagents.backends import LocalShellBackend
from langchain_core.language_models import BaseChatModel
from langgraph.types import Command

from libs.middleware.answers import AddressedGraph, answer_by_id
from libs.middleware.approval_middleware import ApprovalMiddleware
from libs.middleware.subagents import bound_subagents
from libs.models.scripted import Conversation, Reply, ScriptedChatModel, ToolUse

GATED = {"execute": ("approve", "reject"), "edit_file": ("approve", "reject", "edit")}
APPROVE = {"type": "approve"}
COMMAND = {"type": "approve", "scope": "command"}
TOOL = {"type": "approve", "scope": "tool"}
REJECT = {"type": "reject", "message": "not now"}


def run(word: str, **more: Any) -> ToolUse:
    """A shell call that leaves `word` in `ran.txt`."""
    return ToolUse(name="execute", args={"command": f"echo {word} >> ran.txt", **more})


def task(name: str, kind: str = "general-purpose") -> ToolUse:
    """A subagent started with the conversation `name`."""
    return ToolUse(name="task", args={"description": name, "subagent_type": kind})


def scripted(
    scripts: Mapping[str, Sequence[str | Sequence[ToolUse]]],
    model: type[ScriptedChatModel] = ScriptedChatModel,
) -> ScriptedChatModel:
    """A model that plays, for each first message, texts and tool calls."""
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
) -> AddressedGraph:
    """A deep agent as an application builds it: one gate for itself and all of its subagents."""
    binding = [ApprovalMiddleware(GATED)] if middleware is None else list(middleware)
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
    """The words of every command that ran, in order."""
    log = folder / "ran.txt"
    return log.read_text().split() if log.exists() else []


def questions(result: Mapping[str, Any]) -> list[Any]:
    """The values of the interrupts that wait."""
    return [interrupt.value for interrupt in result.get("__interrupt__", ())]


def assert_answered_once(messages: Sequence[Any]) -> None:
    """Every tool call has exactly one answer, so the next turn is accepted by every provider."""
    calls = [call["id"] for message in messages for call in getattr(message, "tool_calls", [])]
    answers = [message.tool_call_id for message in messages if message.type == "tool"]
    assert sorted(calls) == sorted(answers)
