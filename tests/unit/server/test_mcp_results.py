"""Tests the result of a tool of /mcp."""

from __future__ import annotations

from agent.server.mcp.mcp_tools import answered
from agent.server.routes.run_service import Ended


def test_tool_of_mcp_names_absent_paths_of_the_task() -> None:
    ended = Ended("1", "completed", "There is none.", [], [], absent_paths=["/data/people.csv"])
    result = answered("deep_agent", ended)
    assert result.structured_content["absent_paths"] == ["/data/people.csv"]
    assert [part.text for part in result.content] == ["There is none.\n\n/data/people.csv is not there."]
