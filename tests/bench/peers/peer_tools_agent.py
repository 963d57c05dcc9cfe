"""Run a plain deep agent with the tools of MCP servers, and print its requests to the model.

An interpreter with `deepagents` and `langchain-mcp-adapters` runs this program, so it imports nothing of this
project. In comes JSON: `servers` (as in `.mcp.json`), `task`, and `calls`, the calls of tools that the model
makes, all in its first reply. Out comes JSON: the requests with `messages` and `tools`, in OpenAI's form.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from deepagents import create_deep_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, convert_to_openai_messages
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.utils.function_calling import convert_to_openai_tool
from langchain_mcp_adapters.client import MultiServerMCPClient
from pydantic import PrivateAttr


class Scripted(BaseChatModel):
    """Makes all calls at once, and ends. Keeps its requests."""

    calls: list[dict[str, Any]]
    _requests: list[dict[str, Any]] = PrivateAttr(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools])

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **more: Any) -> ChatResult:
        self._requests.append({"messages": convert_to_openai_messages(messages), "tools": more["tools"]})
        calls = self.calls if len(self._requests) == 1 else []
        made = [{"id": f"call_{n}", "type": "tool_call", **call} for n, call in enumerate(calls)]
        return ChatResult(
            generations=[ChatGeneration(message=AIMessage("" if made else "Done.", tool_calls=made))]
        )


async def main() -> None:
    asked = json.load(sys.stdin)
    servers = {name: {"transport": "stdio", **server} for name, server in asked["servers"].items()}
    # With the name of its server, because several servers have a `search`.
    tools = await MultiServerMCPClient(servers, tool_name_prefix=True).get_tools()
    model = Scripted(calls=asked["calls"])
    agent: Any = create_deep_agent(model=model, tools=tools)
    state = await agent.ainvoke({"messages": [("user", asked["task"])]})
    results = [message for message in state["messages"] if message.type == "tool"]
    failed = [message.text for message in results if message.status == "error"]
    if failed or len(results) != len(asked["calls"]):
        sys.exit(f"{len(results)} calls have results, and {len(failed)} failed: {failed[:1]}")
    json.dump(model._requests, sys.stdout)


asyncio.run(main())
