"""A model is told that files were brought back, and which files of a step could not be kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import Field

from libs.middleware.captures import CaptureMiddleware
from libs.models.scripted_model import Conversation, Reply, ScriptedChatModel, ToolUse
from libs.persistence.thread_database import SqliteDatabase
from libs.workspace import Catalog
from libs.workspace.ledger import Ledger, News
from tests.support.code_loops import bash, looping, playing

THREAD: Any = {"configurable": {"thread_id": "t"}}


class Model(GenericFakeChatModel):
    """Keeps the texts of its requests, and fails when its replies have ended."""

    asked: list[list[str]] = Field(default_factory=list)

    def _generate(self, messages: list[BaseMessage], *given: Any, **named: Any) -> ChatResult:
        self.asked.append([message.text for message in messages])
        return super()._generate(messages, *given, **named)


class Told:
    """Captures of a thread about which there is news."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.lost = ""

    async def begin_turn(self, thread: str) -> str:
        return await self.ledger.open(thread)

    after_step = begin_turn

    async def unkept(self, thread: str) -> str:
        return self.lost

    async def news(self, thread: str) -> News | None:
        return await self.ledger.news(thread)


@pytest.fixture
def captures(database: SqliteDatabase) -> Told:
    Catalog(database)
    return Told(Ledger(database))


async def test_note_that_a_failed_request_had_is_repeated_and_then_kept_once(captures: Told) -> None:
    model = Model(messages=iter([AIMessage("one")]))
    agent = create_agent(
        model, middleware=[CaptureMiddleware(captures, reads=())], checkpointer=InMemorySaver()
    )
    await agent.ainvoke({"messages": [HumanMessage("first")]}, THREAD)
    await captures.ledger.tell("t", "an older note")
    await captures.ledger.tell("t", "note")
    with pytest.raises(RuntimeError):
        await agent.ainvoke({"messages": [HumanMessage("second")]}, THREAD)
    model.messages = iter([AIMessage("two"), AIMessage("three")])
    await agent.ainvoke(None, THREAD)
    done = await agent.ainvoke({"messages": [HumanMessage("third")]}, THREAD)
    with_note = ["first", "one", "second", "note"]
    assert model.asked == [["first"], with_note, with_note, [*with_note, "two", "third"]]
    assert [message.text for message in done["messages"]] == [*with_note, "two", "third", "three"]


async def test_note_is_forgotten_when_the_files_are_brought_back_again(captures: Told) -> None:
    ticket = await captures.ledger.open("t")
    await captures.ledger.tell("t", "note")
    await captures.ledger.copy("t", "copy", shared=True)
    await captures.ledger.set_head("t", ticket, moved=True)
    assert await captures.news("t") is None
    kept = await captures.news("copy")
    assert kept and kept.text == "note"


@tool
def act() -> str:
    """Do something."""
    return "done"


@pytest.mark.parametrize("lost", ["[lost]", ""])
async def test_note_about_files_that_were_not_kept_stands_behind_the_output(
    captures: Told, lost: str
) -> None:
    captures.lost = lost
    replies = (Reply(tool_calls=(ToolUse(name="act", args={}),)), Reply(text="ok"))
    agent = create_agent(
        ScriptedChatModel(conversations=(Conversation(replies=replies),)),
        [act],
        middleware=[CaptureMiddleware(captures, reads=())],
        checkpointer=InMemorySaver(),
    )
    done = await agent.ainvoke({"messages": [HumanMessage("go")]}, THREAD)
    assert done["messages"][-2].text == (f"done\n\n{lost}" if lost else "done")
    assert (await agent.aget_state(THREAD)).values["workspace"] == await captures.ledger.head("t")


async def test_code_block_agent_reads_the_note_behind_the_output(captures: Told, tmp_path: Path) -> None:
    captures.lost = "[lost]"
    model = playing(bash("echo hi"), "ok")
    with looping(tmp_path, model, captures=captures, checkpointer=InMemorySaver()) as graph:
        done = await graph.ainvoke({"messages": [HumanMessage("go")]}, THREAD)
    said = done["messages"][-2].text
    assert "hi" in said
    assert said.endswith("\n\n[lost]")
