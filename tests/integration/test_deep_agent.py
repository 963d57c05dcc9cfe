"""The deep agent in the real sandbox: the demonstration, what skills withstand, and where things are put."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatResult

from agent.config import ROOT, build_backend, load_settings
from agent.graph import build_graph
from libs.backends.docker import TOOL_CALL_ID
from libs.backends.workspace import WorkspaceBackend
from libs.models.scripted import Conversation, Reply, ScriptedChatModel, ToolUse

pytestmark = pytest.mark.docker

SKILL = "/skills/csv-analytics/SKILL.md"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    shutil.copy(ROOT / "workspace" / "data" / "sales.csv", tmp_path / "data")
    return tmp_path


@pytest.fixture
async def backend(workspace: Path) -> AsyncIterator[WorkspaceBackend]:
    backend = build_backend(load_settings(None, workspace_dir=workspace))
    with backend.default:  # type: ignore[attr-defined]
        yield backend


def script(*conversations: Conversation) -> ScriptedChatModel:
    return ScriptedChatModel(conversations=conversations)


def calls(*uses: tuple[str, dict[str, Any]]) -> Reply:
    return Reply(tool_calls=tuple(ToolUse(name=name, args=args) for name, args in uses))


async def run(backend: WorkspaceBackend, model: ScriptedChatModel, task: str = "go") -> Any:
    graph = build_graph(model, settings=load_settings(None, approvals="auto"), backend=backend)
    return await graph.ainvoke({"messages": [HumanMessage(task)]})


def tool_messages(result: Any) -> list[ToolMessage]:
    return [message for message in result["messages"] if isinstance(message, ToolMessage)]


async def test_the_demo_says_what_it_found(backend: WorkspaceBackend, workspace: Path) -> None:
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


async def test_nobody_changes_a_skill(backend: WorkspaceBackend) -> None:
    skills = ROOT / "skills"
    before = {path: path.read_bytes() for path in skills.rglob("*") if path.is_file()}
    attempts = [
        ("write_file", {"file_path": "/skills/new.md", "content": "x"}),
        ("write_file", {"file_path": "//skills/.hidden", "content": "x"}),
        ("edit_file", {"file_path": SKILL, "old_string": "CSV", "new_string": "XXX", "replace_all": True}),
        ("delete", {"file_path": "/skills"}),
        ("delete", {"file_path": "//skills/csv-analytics"}),
    ]
    commands = [
        f"echo x > {SKILL}",
        f"rm -rf {SKILL}",
        "touch /skills/.hidden",
        f"ln -s {SKILL} /workspace/link && echo x > /workspace/link",
        "mv /skills/csv-analytics /skills/gone",
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
    assert {path: path.read_bytes() for path in skills.rglob("*") if path.is_file()} == before
    for message in tool_messages(result)[: len(attempts)]:
        assert "read-only" in message.text
    for message in tool_messages(result)[len(attempts) : len(attempts) + len(commands)]:
        assert "Read-only file system" in message.text


async def test_a_path_means_the_same_to_tools_and_commands(backend: WorkspaceBackend) -> None:
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


async def test_a_large_result_is_put_where_the_model_can_read_it(
    backend: WorkspaceBackend, workspace: Path
) -> None:
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


async def test_a_command_knows_its_tool_call(
    backend: WorkspaceBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str | None] = []
    sandbox: Any = backend.default
    original = sandbox.aexecute

    async def recording(command: str, **options: Any) -> Any:
        seen.append(TOOL_CALL_ID.get())
        return await original(command, **options)

    monkeypatch.setattr(sandbox, "aexecute", recording)
    model = script(
        Conversation(
            replies=(
                calls(("execute", {"command": "echo 1"}), ("execute", {"command": "echo 2"})),
                Reply(text="done"),
            )
        )
    )
    result = await run(backend, model)
    assert [message.artifact["exit_code"] for message in tool_messages(result)] == [0, 0]
    assert set(seen) == {message.tool_call_id for message in tool_messages(result)}
    assert TOOL_CALL_ID.get() is None


class SmallWindow(ScriptedChatModel):
    """A model that takes 40,000 characters."""

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        if sum(len(message.text) for message in messages) > 40_000:
            raise ContextOverflowError("too long")
        return super()._generate(messages, *args, **kwargs)


async def test_history_that_no_longer_fits_is_kept(backend: WorkspaceBackend, workspace: Path) -> None:
    steps = [calls(("execute", {"command": f"echo step {number}; seq 2000"})) for number in range(9)]
    model = SmallWindow(
        conversations=(
            Conversation(when="<role>", replies=(Reply(text="what was done before"),)),
            Conversation(when="many steps", replies=(*steps, Reply(text="done"))),
            Conversation(replies=(Reply(text="after the summary"),) * 9),
        )
    )
    result = await run(backend, model, "many steps")
    assert result["status"] == "completed"
    assert result["messages"][-1].text == "after the summary"
    [history] = (workspace / ".output" / "conversation_history").glob("*.md")
    text = history.read_text()
    assert "many steps" in text
    assert "echo step 0" in text
