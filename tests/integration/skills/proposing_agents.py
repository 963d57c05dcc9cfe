"""Agents on a workspace that propose skills, each with a script in place of a model."""

from __future__ import annotations

import shlex
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import PrivateAttr

from agent.run.agents import build_agent
from libs.backends.workspace_backend import WorkspaceBackend
from libs.models.scripted_model import Conversation, Reply, ScriptedChatModel, ToolUse

SKILL = (
    "---\nname: greet\ndescription: Greets people. Use when somebody is to be greeted.\n---\n\n# Greet\n\n"
)
GOOD = SKILL + "    python /skills.d/learned/greet/scripts/run.py NAME\n"
APPROVE, REJECT = {"type": "approve"}, {"type": "reject", "message": "too small"}


class Recording(ScriptedChatModel):
    """Plays its script and records the requests."""

    _requests: list[list[BaseMessage]] = PrivateAttr(default_factory=list)

    def _next(self, messages: Any) -> AIMessage:
        self._requests.append(list(messages))
        return super()._next(messages)


def writes(text: str, *, name: str = "greet", more: str = "true") -> str:
    folder = f"/workspace/skills/{name}"
    return (
        f"mkdir -p {folder}/scripts && printf %s {shlex.quote(text)} > {folder}/SKILL.md && "
        f"echo 'print(\"hello\")' > {folder}/scripts/run.py && {more}"
    )


class Agents:
    """One of the two agents on a workspace."""

    def __init__(self, kind: Any, settings: Any, backend: WorkspaceBackend) -> None:
        self.kind, self.settings, self.backend = kind, settings, backend
        self.saver = InMemorySaver()

    def command(self, text: str) -> Reply:
        if self.kind == "code":
            return Reply(text=f"I do it.\n```bash\n{text}\n```")
        return Reply(tool_calls=(ToolUse(name="execute", args={"command": text}),))

    def built(self, *replies: str | Reply, approvals: str = "ask") -> tuple[Any, Recording]:
        script = tuple(Reply(text=reply) if isinstance(reply, str) else reply for reply in replies)
        model = Recording(conversations=(Conversation(replies=script),))
        graph = build_agent(
            self.kind,
            model,
            checkpointer=self.saver,
            settings=self.settings.model_copy(update={"approvals": approvals}),
            backend=self.backend,
        )
        return graph, model

    async def run(self, graph: Any, task: str = "learn to greet", thread: str = "1") -> Any:
        """Run with every command approved, up to a question about a skill or the end."""
        config = {"configurable": {"thread_id": thread}}
        result = await graph.ainvoke({"messages": [HumanMessage(task)]}, config)
        while (asked := questions(result)) and asked[0]["action_requests"][0]["name"] != "adopt_skill":
            count = len(asked[0]["action_requests"])
            result = await graph.ainvoke(Command(resume={"decisions": [APPROVE] * count}), config)
        return result

    async def answer(self, graph: Any, decision: Any, thread: str = "1") -> Any:
        config = {"configurable": {"thread_id": thread}}
        return await graph.ainvoke(Command(resume={"decisions": [decision]}), config)


def questions(result: Any) -> list[Any]:
    return [each.value for each in result.get("__interrupt__", ())]
