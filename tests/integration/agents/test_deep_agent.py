"""The deep agent in a real sandbox: the demo, read-only skills, paths, large results."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig

from agent.graph import build_graph
from agent.run.run_steps import run_result
from agent.settings import ROOT, load_settings
from libs.backends.workspace_backend import WorkspaceBackend
from libs.models.scripted_model import Conversation, Reply, ScriptedChatModel, ToolUse
from libs.persistence.sqlite_saver import open_checkpointer

pytestmark = pytest.mark.docker

SKILL = "/skills/csv-analytics/SKILL.md"


def script(*conversations: Conversation) -> ScriptedChatModel:
    return ScriptedChatModel(conversations=conversations)


def calls(*uses: tuple[str, dict[str, Any]]) -> Reply:
    return Reply(tool_calls=tuple(ToolUse(name=name, args=args) for name, args in uses))


async def run(backend: WorkspaceBackend, model: ScriptedChatModel, task: str = "go") -> Any:
    graph = build_graph(model, settings=load_settings(None, approvals="auto"), backend=backend)
    return await graph.ainvoke({"messages": [HumanMessage(task)]})


def tool_messages(result: Any) -> list[ToolMessage]:
    return [message for message in result["messages"] if isinstance(message, ToolMessage)]


async def test_result_of_a_command_survives_a_checkpoint(backend: WorkspaceBackend, tmp_path: Path) -> None:
    model = script(
        Conversation(
            when="go", replies=(calls(("execute", {"command": "echo é; exit 3"})), Reply(text="Done."))
        )
    )
    thread: RunnableConfig = {"configurable": {"thread_id": str(uuid4())}}
    settings = load_settings(None, approvals="auto")
    found = []
    for task in ({"messages": [HumanMessage("go")]}, None):
        async with open_checkpointer(tmp_path / "threads.sqlite") as saver:
            graph = build_graph(model, settings=settings, backend=backend, checkpointer=saver)
            result = await graph.ainvoke(task, thread) if task else (await graph.aget_state(thread)).values
            found += tool_messages(result)
    made, kept = found
    assert kept.artifact == made.artifact == asdict(run_result(kept))  # type: ignore[arg-type]
    assert (kept.artifact["output"], kept.artifact["exit_code"]) == ("é\n", 3)
    assert 0 < kept.artifact["seconds"] < 60


async def test_demo_reports_its_results(backend: WorkspaceBackend, workspace: Path) -> None:
    model = ScriptedChatModel.from_file(ROOT / "agent" / "demo.yaml")
    result = await run(backend, model, "revenue by month")
    assert result["status"] == "completed"
    assert all(message.status == "success" for message in tool_messages(result))
    commands = [message for message in tool_messages(result) if message.name == "execute"]
    assert [message.artifact["exit_code"] for message in commands] == [0, 0]
    assert {todo["status"] for todo in result["todos"]} == {"completed"}

    found = json.loads((workspace / "results" / "revenue_by_month.json").read_text())
    assert (workspace / "results" / "revenue_by_month.png").read_bytes().startswith(b"\x89PNG")
    answer = result["messages"][-1].text
    assert f"{found['total']:,.2f}" in answer
    assert found["best_month"] in answer
    assert f"Of {found['rows']:,} rows {found['duplicates_dropped']} were there twice" in answer
    assert f"{found['revenue_filled_in']} missing amounts" in answer
    assert f"{found['revenue_unknown']} could not be" in answer


async def test_skills_are_read_only(backend: WorkspaceBackend) -> None:
    def skills() -> dict[Path, bytes]:
        # Another test may compile the modules of skills at the same time.
        files = (path for path in (ROOT / "skills").rglob("*") if path.suffix != ".pyc" and path.is_file())
        return {path: path.read_bytes() for path in files}

    before = skills()
    attempts = [
        ("write_file", {"file_path": "//skills/.hidden", "content": "x"}),
        ("edit_file", {"file_path": SKILL, "old_string": "CSV", "new_string": "XXX", "replace_all": True}),
        ("delete", {"file_path": "//skills/csv-analytics"}),
    ]
    commands = [
        f"rm -rf {SKILL}",
        "touch /skills/.hidden",
        f"ln -s {SKILL} /workspace/link && echo x > /workspace/link",
    ]
    tried = calls(*attempts, *(("execute", {"command": command}) for command in commands))
    through_link = calls(
        ("edit_file", {"file_path": "/workspace/link", "old_string": "CSV", "new_string": "X"})
    )
    subtask = {"subagent_type": "general-purpose", "description": "subtask"}
    model = script(
        Conversation(when="subtask", replies=(tried, through_link, Reply(text="refused"))),
        Conversation(replies=(tried, through_link, calls(("task", subtask)), Reply(text="refused"))),
    )
    result = await run(backend, model)
    assert skills() == before
    for message in tool_messages(result)[: len(attempts)]:
        assert "read-only" in message.text
    for message in tool_messages(result)[len(attempts) : len(attempts) + len(commands)]:
        assert "Read-only file system" in message.text


async def test_paths_are_the_same_for_tools_and_commands(backend: WorkspaceBackend) -> None:
    assert (await backend.awrite("/scripts/a.sh", "echo from the script")).error is None
    assert (await backend.aexecute("bash /workspace/scripts/a.sh")).output.strip() == "from the script"
    listed = [entry["path"].rstrip("/") for entry in (await backend.als("/")).entries or []]
    assert listed.count("/skills") == 1
    found = (await backend.aglob("*.csv")).matches or []
    assert [match["path"] for match in found] == ["/workspace/data/sales.csv"]
    skills = (await backend.aglob("**/SKILL.md", "/skills")).matches or []
    assert SKILL in [match["path"] for match in skills]
    assert (await backend.agrep("name: csv-analytics")).matches == []
    [match] = (await backend.agrep("name: csv-analytics", "/skills")).matches or []
    assert match["path"] == SKILL


async def test_large_result_is_kept_in_the_workspace(backend: WorkspaceBackend, workspace: Path) -> None:
    report = "a line of the report\n" * 6_000
    task = {"subagent_type": "general-purpose", "description": "a long report"}
    model = script(
        Conversation(when="a long report", replies=(Reply(text=report),)),
        Conversation(replies=(calls(("task", task)), Reply(text="done"))),
    )
    [message] = tool_messages(await run(backend, model))
    [kept] = (workspace / ".output" / "large_tool_results").iterdir()
    assert f"/workspace/.output/large_tool_results/{kept.name}" in message.text
    assert kept.read_text().strip() == report.strip()
