"""No run ends as completed with a call that could not be read, or with an answer that was cut in silence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.memory import InMemorySaver

from agent.graph import build_graph
from agent.settings import load_settings
from tests.support.gated_agents import say, task, thread


class Given(BaseChatModel):
    """Gives each conversation its replies."""

    replies: dict[str, list[AIMessage]]

    @property
    def _llm_type(self) -> str:
        return "given"

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        first = next(message.text for message in messages if message.type == "human")
        place = sum(isinstance(message, AIMessage) for message in messages)
        return ChatResult(generations=[ChatGeneration(message=self.replies[first][place])])


def run(folder: Path, **replies: list[AIMessage]) -> list[BaseMessage]:
    settings = load_settings(None, workspace_dir=folder, approvals="auto")
    graph = build_graph(Given(replies=replies), checkpointer=InMemorySaver(), settings=settings)
    messages: list[BaseMessage] = graph.invoke(say("go"), thread())["messages"]
    return messages


def unreadable(call_id: str | None) -> AIMessage:
    call: Any = {"name": "ls", "args": "{", "id": call_id, "error": None, "type": "invalid_tool_call"}
    return AIMessage("", invalid_tool_calls=[call])


@pytest.mark.parametrize(("call_id", "kind"), [("1", "tool"), (None, "human")])
def test_model_is_asked_again_after_a_call_that_cannot_be_read(
    tmp_path: Path, call_id: str | None, kind: str
) -> None:
    _, _, told, last = run(tmp_path, go=[unreadable(call_id), AIMessage("Done.")])
    assert told.type == kind
    assert "malformed or " in told.text
    assert last.text == "Done."


def test_subagent_is_asked_again_too(tmp_path: Path) -> None:
    call: Any = {**task("sub").model_dump(), "id": "1", "type": "tool_call"}
    starts = AIMessage("", tool_calls=[call])
    *_, told, _ = run(tmp_path, go=[starts, AIMessage("Done.")], sub=[unreadable("2"), AIMessage("Found 3.")])
    assert told.text == "Found 3."


@pytest.mark.parametrize("reason", ["length", "stop"])
def test_answer_that_was_cut_off_says_so(tmp_path: Path, reason: str) -> None:
    reply = AIMessage("There are", response_metadata={"finish_reason": reason})
    *_, last = run(tmp_path, go=[reply])
    note = "\n\n[This reply reached its greatest length and was cut off.]" if reason == "length" else ""
    assert last.text == f"There are{note}"
