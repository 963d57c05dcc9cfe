"""Results of MCP tools."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from mcp_types import CallToolRequestParams

from agent.server.json_exchange import Refused
from agent.server.mcp.mcp_routes import McpEndpoint
from agent.server.mcp.mcp_tools import answered
from agent.server.routes.run_service import Ended


def test_tool_of_mcp_names_absent_paths_of_the_task() -> None:
    ended = Ended("1", "completed", "There is none.", [], [], absent_paths=["/data/people.csv"])
    result = answered("deep_agent", ended)
    assert result.structured_content["absent_paths"] == ["/data/people.csv"]
    assert [part.text for part in result.content] == ["There is none.\n\n/data/people.csv is not there."]


@pytest.mark.parametrize(
    ("more", "told"),
    [({}, "; none of it has run."), ({"effect": {}}, "; each call below that has already run says so.")],
)
def test_tool_says_of_a_waiting_call_whether_it_has_run(more: dict[str, Any], told: str) -> None:
    question = {"id": "i", "value": {"action_requests": [{"name": "execute", "args": {}, **more}]}}
    [said] = answered("deep_agent", Ended("1", "interrupted", "", [], [question])).content
    assert f"This waits for a person's approval{told}" in said.text  # type: ignore[union-attr]


async def test_tool_of_an_ending_server_says_how_to_get_the_result() -> None:
    class Ending:
        async def begin(self, *_: Any, **__: Any) -> Ended:
            raise Refused(503, "The server is ending.", thread_id="t1", run_id="r1")

    endpoint = McpEndpoint()
    endpoint._runs = Ending()  # type: ignore[assignment]
    context: Any = SimpleNamespace(request=None)
    asked = CallToolRequestParams(name="deep_agent", arguments={"input": "Count the rows."})
    [said] = (await endpoint._call_tool(context, asked)).content
    assert said.text == "The server is ending. Call this tool with the thread_id t1 alone."  # type: ignore[union-attr]
