"""Runs an agent with a script and approves everything."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import AIMessage, AnyMessage
from langgraph.types import Command
from pydantic import PrivateAttr

from libs.models.scripted_model import ScriptedChatModel

__all__ = ["Recording", "played"]


def played(agent: Any) -> tuple[list[dict[str, Any]], list[AnyMessage]]:
    """Run a task and approve everything. Return the requests for approval and all messages."""
    config = {"configurable": {"thread_id": "1"}}
    state = agent.invoke({"messages": [("user", "go")]}, config)
    asked: list[dict[str, Any]] = []
    while "__interrupt__" in state:
        answers = {}
        for question in state["__interrupt__"]:
            requests = question.value["action_requests"]
            asked += requests
            answers[question.id] = {"decisions": [{"type": "approve"} for _ in requests]}
        state = agent.invoke(Command(resume=answers), config)
    return asked, state["messages"]


class Recording(ScriptedChatModel):
    """Keeps the system prompts of its requests."""

    _prompts: list[str] = PrivateAttr(default_factory=list)

    def _next(self, messages: Any) -> AIMessage:
        self._prompts.append(messages[0].text)
        return super()._next(messages)
