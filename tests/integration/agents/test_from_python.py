"""Use from Python: the examples of README and docs/python.md, and calls in a notebook."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from agent import code_graph, exec_graph, graph
from agent.parts.exec_parts import ExecParts, build_exec_parts
from agent.settings import ROOT, Settings, load_settings
from libs.backends import WorkspaceBackend
from libs.models.scripted_model import Conversation, Reply, ScriptedChatModel, ToolUse
from tests.support.waiting import eventually

pytestmark = pytest.mark.docker

MODEL = '"openai:gpt-5-mini"'
OWN_MODEL = """\
from agent.config import build_model, load_settings
model = build_model(load_settings(None), "scripted:script.json")
"""


def first_example(page: str) -> str:
    """Return the first Python block of a page."""
    found = re.search(r"^```python\n(.*?)^```$", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)
    assert found is not None
    assert found[1].count(MODEL) == 1
    return found[1]


def carried_out(program: str, folder: Path, command: str, answer: str) -> str:
    """Run a program, type `approve` once, and return what the program prints.

    The model calls `execute` with the command, then answers.
    """
    call = {"name": "execute", "args": {"command": command}}
    home = folder.with_name(f"{folder.name}-home")  # threads must be apart from the workspace
    home.mkdir()
    (home / "script.json").write_text(json.dumps([{"tool_calls": [call]}, {"text": answer}]))
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=home,
        env=os.environ | {"PYTHONPATH": str(ROOT), "WORKSPACE_DIR": str(folder), "APPROVALS": "ask"},
        input="approve\n",
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    return done.stdout


def test_first_example_of_the_readme(workspace: Path) -> None:
    program = first_example("README.md").replace(MODEL, '"scripted:script.json"')
    said = carried_out(
        program, workspace, "wc -l /data/sales.csv | tee /results/rows", "3,505 rows and a heading."
    )
    assert "wc -l /data/sales.csv" in said
    assert said.endswith("approve or reject? 3,505 rows and a heading.\n")
    assert (workspace / "results" / "rows").read_text() == "3506 /data/sales.csv\n"


def test_example_of_an_own_deep_agent(tmp_path: Path) -> None:
    program = OWN_MODEL + first_example("docs/python.md").replace(MODEL, "model")
    said = carried_out(program, tmp_path, "echo a frog jumps > results/haiku.txt", "Three words.")
    assert "echo a frog jumps > results/haiku.txt" in said
    assert said.endswith("approve or reject? Three words.\n")
    home = tmp_path.with_name(f"{tmp_path.name}-home")
    assert (home / "my-workspace" / "results" / "haiku.txt").read_text() == "a frog jumps\n"


@pytest.mark.parametrize("asynchronous", [False, True], ids=["invoke", "asyncio.run"])
@pytest.mark.thorough
def test_ctrl_c_waits_for_the_command_or_ends_it(tmp_path: Path, *, asynchronous: bool) -> None:
    command = "touch begun; until [ -e go ]; do sleep 0.1; done; echo to its end > ended"
    workspace = tmp_path / "workspace"
    call = {"name": "execute", "args": {"command": command}}
    (tmp_path / "script.json").write_text(json.dumps([{"tool_calls": [call]}, {"text": "Done."}]))
    run = "asyncio.run(graph.ainvoke(task, config))" if asynchronous else "graph.invoke(task, config)"
    program = f"""
        import asyncio
        from langgraph.checkpoint.memory import InMemorySaver
        from agent.graph import build_graph
        graph = build_graph("scripted:script.json", checkpointer=InMemorySaver())
        task, config = {{"messages": [("user", "go")]}}, {{"configurable": {{"thread_id": "1"}}}}
        try:
            {run}
        except KeyboardInterrupt:
            print("interrupted")
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT), "WORKSPACE_DIR": str(workspace), "APPROVALS": "auto"},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        eventually((workspace / "begun").exists, 120)
        process.send_signal(signal.SIGINT)
        if not asynchronous:
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(2)
            (workspace / "go").touch()
        assert process.communicate(timeout=60)[0] == "interrupted\n"
    finally:
        process.kill()
    assert (workspace / "ended").exists() != asynchronous


async def answer_after_approval(graph: Any, call: Any, thread: str) -> str:
    """Run a task in a thread, approve one question, and return the text of the answer."""
    config = {"configurable": {"thread_id": thread}}
    waiting = await call(graph, {"messages": [("user", "go")]}, config)
    assert "__interrupt__" in waiting
    done = await call(graph, Command(resume={"decisions": [{"type": "approve"}]}), config)
    assert "__interrupt__" not in done
    return str(done["messages"][-1].text)


async def synchronous(graph: Any, *arguments: Any) -> Any:
    return graph.invoke(*arguments)


async def asynchronous(graph: Any, *arguments: Any) -> Any:
    return await graph.ainvoke(*arguments)


@pytest.fixture
def settings(workspace: Path) -> Settings:
    return load_settings(None, workspace_dir=workspace, exec_seconds=120)


@pytest.fixture
def parts(settings: Settings) -> Iterator[ExecParts]:
    made = build_exec_parts(settings)
    yield made
    made.close()


@pytest.mark.parametrize(
    ("module", "first"),
    [
        (graph, Reply(tool_calls=(ToolUse(name="execute", args={"command": "echo 42"}),))),
        (code_graph, Reply(text="```python\nprint(42)\n```")),
        (
            exec_graph,
            Reply(tool_calls=(ToolUse(name="execute_code", args={"code": "print([42])"}),)),
        ),
    ],
    ids=["deep", "code", "exec"],
)
async def test_graph_works_in_a_running_event_loop(
    settings: Settings,
    backend: WorkspaceBackend,
    parts: ExecParts,
    module: ModuleType,
    first: Reply,
) -> None:
    """A cell of a notebook runs in the notebook's event loop."""
    model = ScriptedChatModel(conversations=(Conversation(replies=(first, Reply(text="It is 42."))),))
    computer = {"parts": parts} if module is exec_graph else {"backend": backend}
    made = module.build_graph(model, checkpointer=InMemorySaver(), settings=settings, **computer)
    for thread, call in enumerate((synchronous, asynchronous)):
        assert "42" in await answer_after_approval(made, call, str(thread))
