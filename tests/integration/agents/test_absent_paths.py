"""Every agent's model reads which paths of the task do not exist, and the state keeps them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from agent.parts.exec_parts import build_exec_parts
from agent.run import AgentName
from agent.run.agents import build_agent
from agent.settings import Settings, load_settings
from libs.backends import WorkspaceBackend
from tests.support.exec_tool.exec_runners import playing

pytestmark = pytest.mark.docker

TASK = "Join /data/people.csv and /data/sales.csv with data/two words.csv, and save /results/joined.csv."


@pytest.fixture
def settings(workspace: Path) -> Settings:
    workspace.chmod(0o755)  # the programs of the one-tool agent do not run as root
    (workspace / "data" / "two words.csv").write_text("a\n1\n")
    return load_settings(None, workspace_dir=workspace, approvals="auto")


@pytest.fixture(params=["deep", "code", "exec"])
def name(request: pytest.FixtureRequest) -> AgentName:
    agent: AgentName = request.param
    return agent


@pytest.fixture
def agent(name: AgentName, settings: Settings, backend: WorkspaceBackend) -> Iterator[tuple[Any, Any]]:
    model = playing(*["There is no such file."] * 8)
    parts = build_exec_parts(settings)
    threads = InMemorySaver()
    yield (
        build_agent(name, model, checkpointer=threads, settings=settings, backend=backend, parts=parts),
        model,
    )
    parts.close()


async def test_model_reads_which_paths_of_the_task_are_absent(name: AgentName, agent: Any) -> None:
    graph, model = agent
    thread: Any = {"configurable": {"thread_id": "1"}}
    absent = ["/data/people.csv"] if name == "exec" else ["/data/people.csv", "/results/joined.csv"]
    result = await graph.ainvoke({"messages": [HumanMessage(TASK)]}, thread)
    assert result["absent_paths"] == absent
    system = model._requests[0][0].text
    assert f"which did not exist when the task began: {', '.join(f'`{path}`' for path in absent)}\n" in system
    # The next task names no path.
    before = len(model._requests)
    result = await graph.ainvoke({"messages": [HumanMessage("Thank you.")]}, thread)
    assert result["absent_paths"] == []
    assert "Paths of the task" not in model._requests[before][0].text
