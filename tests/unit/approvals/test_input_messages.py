"""A message that cannot be read is refused, and the thread stays readable."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from libs.middleware.input_messages import UnreadableMessage
from tests.support.gated_agents import agent, say, scripted, thread

GOOD = {"role": "user", "content": "go"}
UNREADABLE = [
    ({"role": "bogus", "content": "x"}, "Unexpected message type: 'bogus'"),
    ({"role": "user"}, "must contain 'role' and 'content' keys"),
    ({"role": "user", "content": 5}, "content: Input should be a valid string"),
    ({"role": "tool", "content": "x"}, "KeyError: 'tool_call_id'"),
    ({"role": [], "content": "x"}, "unhashable"),
    ({"role": "assistant", "content": "", "tool_calls": "x"}, "AttributeError"),
    (7, "Unsupported message type"),
]


@pytest.mark.parametrize(("message", "reason"), UNREADABLE)
async def test_unreadable_message_is_refused_and_the_thread_stays_readable(
    tmp_path: Path, message: Any, reason: str
) -> None:
    graph = agent(tmp_path, scripted({"go": ["hello", "again"]}), checkpointer=InMemorySaver())
    graph.invoke(say("go"), thread())
    before = graph.get_state(thread())
    inputs: list[Any] = [
        {"messages": [GOOD, message]},
        Command(update={"messages": [GOOD, message]}),
        Command(update=[["messages", [GOOD, message]]]),
    ]
    for given in inputs:
        with pytest.raises(UnreadableMessage, match=r"messages\[1\] cannot be read: ") as refused:
            graph.invoke(given, thread())
        assert reason in str(refused.value)
        assert str(refused.value).endswith('"content": "Summarise /data/sales.csv"}]}.')
        with pytest.raises(UnreadableMessage):
            await graph.ainvoke(given, thread())
        assert graph.get_state(thread()) == before
    assert graph.invoke(say("go on"), thread())["messages"][-1].text == "again"


@pytest.mark.parametrize("sent", ["go", GOOD, [("user", "go")], HumanMessage("go"), [GOOD]])
def test_every_form_of_a_message_is_taken(tmp_path: Path, sent: Any) -> None:
    graph = agent(tmp_path, scripted({"go": ["hello"]}), checkpointer=InMemorySaver())
    assert graph.invoke({"messages": sent}, thread())["messages"][-1].text == "hello"
