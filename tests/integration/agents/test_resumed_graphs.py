"""A resumed graph repeats no step that ended before the kill but is in no checkpoint."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.memory import InMemorySaver

from agent import code_graph, graph
from agent.config import build_backend
from agent.settings import COMMANDS, Settings, load_settings
from libs.backends.docker import DockerExecutionBackend
from libs.backends.workspace_backend import WorkspaceBackend
from libs.models.scripted_model import ScriptedChatModel
from libs.persistence.sqlite_saver import open_checkpointer

pytestmark = pytest.mark.docker

ROOT = Path(__file__).parents[3]
THREAD: Any = {"configurable": {"thread_id": "t"}}

PROGRAM = """
    import asyncio
    from agent import code_graph, graph
    from agent.config import build_backend, load_settings
    from langchain_core.messages import HumanMessage
    from libs.persistence.sqlite_saver import open_checkpointer
    from pathlib import Path

    async def main():
        settings = load_settings(None, model="scripted:script.yaml", approvals="auto", sandbox_scope=SCOPE)
        backend = build_backend(settings)
        async with open_checkpointer(Path("threads.sqlite")) as saver:
            keep, put, reached = saver.aput_writes, saver.aput, asyncio.Event()

            async def put_stuck(*given):
                if reached.is_set():
                    await asyncio.sleep(3600)
                return await put(*given)

            async def stuck(config, writes, task_id, task_path=""):
                # Waits for results of tools and blocks, not for messages of the model.
                shown = [repr(value) for channel, value in writes if channel in ("messages", "executions")]
                if any(WORD in each and ("ToolMessage(" in each or "exit_code" in each) for each in shown):
                    reached.set()
                    print("ran", flush=True)
                    await asyncio.sleep(3600)
                await keep(config, writes, task_id, task_path)

            saver.aput_writes, saver.aput = stuck, put_stuck
            agent = AGENT.build_graph(settings=settings, checkpointer=saver, backend=backend)
            await agent.ainvoke({"messages": [HumanMessage("go")]}, {"configurable": {"thread_id": "t"}},
                                durability="async")

    asyncio.run(main())
"""


def play(folder: Path, agent: str, word: str, replies: list[Any], scope: str = "shared") -> None:
    """Run an agent and kill it just before a result that holds `word` is saved."""
    (folder / "script.yaml").write_text(yaml.safe_dump(replies))
    source = textwrap.dedent(PROGRAM).replace("AGENT", agent).replace("WORD", repr(word))
    with subprocess.Popen(
        [sys.executable, "-c", source.replace("SCOPE", repr(scope))],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ran\n"
        os.kill(process.pid, signal.SIGKILL)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(params=["shared", pytest.param("thread", marks=pytest.mark.thorough)])
def settings(folder: Path, request: pytest.FixtureRequest) -> Settings:
    return load_settings(
        None, model="scripted:script.yaml", approvals="auto", sandbox_scope=request.param, sandbox_warm=0
    )


@pytest.fixture
async def backend(settings: Settings) -> AsyncIterator[WorkspaceBackend]:
    backend = build_backend(settings)
    assert isinstance(backend.default, DockerExecutionBackend)
    with backend.default:
        yield backend


async def resumed(module: Any, settings: Settings, backend: WorkspaceBackend) -> dict[str, Any]:
    async with open_checkpointer(Path("threads.sqlite")) as saver:
        agent = module.build_graph(settings=settings, checkpointer=saver, backend=backend)
        result: dict[str, Any] = await agent.ainvoke(None, THREAD)
        return result


def call(name: str, **args: Any) -> dict[str, Any]:
    return {"name": name, "args": args}


async def test_ended_command_is_not_repeated(
    folder: Path, settings: Settings, backend: WorkspaceBackend
) -> None:
    command = "echo x >> /results/log; echo its-word; exit 4"
    replies: list[Any] = [{"tool_calls": [call("execute", command=command)]}, {"text": "Done."}]
    play(folder, "graph", "its-word", replies, settings.sandbox_scope)
    assert COMMANDS.is_file()
    result = await resumed(graph, settings, backend)
    [told] = [message for message in result["messages"] if isinstance(message, ToolMessage)]
    assert told.text.startswith("its-word\n")
    assert told.artifact["exit_code"] == 4
    assert (settings.workspace_of("t") / "results" / "log").read_text() == "x\n"
    assert result["messages"][-1].text == "Done."


@pytest.mark.parametrize("tool", ["edit_file", pytest.param("delete", marks=pytest.mark.thorough)])
@pytest.mark.thorough
async def test_ended_change_of_a_file_is_not_repeated(
    folder: Path, settings: Settings, backend: WorkspaceBackend, tool: str
) -> None:
    results = settings.workspace_of("t") / "results"
    results.mkdir(parents=True)
    os.chown(results, 1000, 1000)
    path = {"file_path": "/results/its-word"}
    args = {"old_string": "new", "new_string": "new\nmore"} if tool == "edit_file" else {}
    (results / "its-word").write_text("new\n")
    os.chown(results / "its-word", 1000, 1000)
    replies: list[Any] = [
        {"tool_calls": [call("read_file", file_path="/results/its-word")]},
        {"tool_calls": [call(tool, **path, **args)]},
        {"text": "Done."},
    ]
    word = {"edit_file": "replaced", "delete": "eleted"}[tool]
    play(folder, "graph", word, replies, settings.sandbox_scope)
    if tool == "delete":
        (results / "its-word").write_text("a person's, made since\n")
    result = await resumed(graph, settings, backend)
    told = [message for message in result["messages"] if isinstance(message, ToolMessage)][-1]
    assert told.status == "success", told.text
    assert word in told.text
    expected = {"edit_file": "new\nmore\n", "delete": "a person's, made since\n"}
    assert (results / "its-word").read_text() == expected[tool]


@pytest.mark.thorough
async def test_ended_blocks_are_not_repeated(
    folder: Path, settings: Settings, backend: WorkspaceBackend
) -> None:
    python = "open('/results/log', 'a').write('y\\n')"
    text = f"```bash\necho x >> /results/log; echo its-word\n```\n```python\n{python}\n```"
    play(folder, "code_graph", "its-word", [{"text": text}, {"text": "Done."}], settings.sandbox_scope)
    result = await resumed(code_graph, settings, backend)
    assert [(each["output"], each["exit_code"]) for each in result["executions"]] == [
        ("its-word\n", 0),
        ("2\n", 0),
    ]
    assert (settings.workspace_of("t") / "results" / "log").read_text() == "x\ny\n"
    said = next(message.text for message in result["messages"][1:] if isinstance(message, HumanMessage))
    assert "Nothing was run a second time" in said
    assert result["messages"][-1].text == "Done."


class SameIds(ScriptedChatModel):
    """Uses the call id `call_0` in every reply, as some models do."""

    def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
        [generation] = super()._generate(*args, **kwargs).generations
        assert isinstance(generation.message, AIMessage)
        calls = [{**each, "id": "call_0"} for each in generation.message.tool_calls]
        return ChatResult(generations=[ChatGeneration(message=AIMessage(generation.text, tool_calls=calls))])

    _stream = None  # type: ignore[assignment]


@pytest.mark.parametrize("settings", ["shared"], indirect=True)
async def test_repeated_call_ids_are_different_calls(
    settings: Settings, backend: WorkspaceBackend, folder: Path
) -> None:
    command = {"name": "execute", "args": {"command": "echo x >> /results/log; wc -l < /results/log"}}
    replies = [{"tool_calls": [command]}, {"tool_calls": [command]}, {"text": "Done."}]
    (folder / "script.yaml").write_text(yaml.safe_dump(replies))
    model = SameIds.from_file(folder / "script.yaml")
    agent = graph.build_graph(model, settings=settings, checkpointer=InMemorySaver(), backend=backend)
    result = await agent.ainvoke({"messages": [HumanMessage("go")]}, THREAD)
    told = [message.text[:2] for message in result["messages"] if isinstance(message, ToolMessage)]
    assert told == ["1\n", "2\n"]
