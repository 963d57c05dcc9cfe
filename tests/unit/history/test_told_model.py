"""A model is told once, in its next request, that files were brought back."""

from __future__ import annotations

from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatResult
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import Field

from libs.middleware.captures import CaptureMiddleware
from libs.persistence.thread_database import SqliteDatabase
from libs.workspace import Catalog
from libs.workspace.history import Ledger, News

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

    async def begin_turn(self, thread: str) -> str:
        return await self.ledger.open(thread)

    after_step = begin_turn

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
