"""Importing a graph needs neither Docker nor a model, and imports no heavy module."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Literal

import pytest
from blockbuster import BlockBuster, BlockingError

from agent.settings import ROOT
from libs.backends.docker import DockerExecutionBackend
from libs.sandbox.docker.container import DockerSandbox

NOT_BEFORE_A_RUN = {
    # What runs containers, and what serves their connections.
    *("docker", "cryptography", "h11", "publicsuffixlist"),
    # What reads replies, and patterns that take long to compile.
    *("markdown_it", "detect_secrets"),
    # Providers, the local model, the server and its databases, the terminal.
    *("langchain_openai", "openai", "langchain_openrouter", "openrouter", "langchain_ollama", "ollama"),
    *("langchain_google_genai", "openvino_genai", "langgraph_api", "starlette", "psycopg", "aiosqlite"),
    *("typer", "rich", "agent.cli", "agent.server", "agent.http_app"),
}
LOADED = """
import sys
import deepagents
before = set(sys.modules)
import {module}
print(sorted({names} & (set(sys.modules) - before)))
print({module}.graph.checkpointer)
"""
SERVED = """
import importlib.util
import agent.graph as module
from agent.parts.process import served
print(served.cache_info().currsize)
print(module.graph is module.graph, served.cache_info().currsize)
spec = importlib.util.spec_from_file_location("__agent__graph", "agent/graph.py")
loaded = importlib.util.module_from_spec(spec)
spec.loader.exec_module(loaded)
print(type(loaded.__dict__["graph"]).__name__)
"""
WITHOUT_CHECKPOINTER = """
from agent.graph import build_graph, graph
from libs.middleware.approvals import CheckpointerRequired
task = {"messages": [("user", "go")]}
try:
    graph.invoke(task)
except CheckpointerRequired as error:
    advice = [line.strip() for line in str(error).splitlines() if line.startswith("    ")]
print(*advice, sep="\\n")
exec("\\n".join(advice[:2]))
print(graph.invoke(task, {"configurable": {"thread_id": "1"}})["messages"][-1].text)
"""


def python(program: str, cwd: Path = ROOT, **added: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"DOCKER_HOST": "unix:///nonexistent", "APPROVALS": "auto"} | added
    return subprocess.run(
        [sys.executable, "-c", program], cwd=cwd, env=environment, capture_output=True, text=True
    )


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("graph", "nobody:nothing"),
        pytest.param("code_graph", "scripted:/gone.yaml", marks=pytest.mark.thorough),
        pytest.param("exec_graph", "local", marks=pytest.mark.thorough),
    ],
)
def test_modules_for_runs_are_not_imported(tmp_path: Path, name: str, model: str) -> None:
    """A short import makes a quick start. The graph has no checkpointer: the server brings one."""
    program = LOADED.format(module=f"agent.{name}", names=NOT_BEFORE_A_RUN)
    done = python(program, cwd=tmp_path, PYTHONPATH=str(ROOT), MODEL=model)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[]\nNone\n"


def test_served_graph_is_built_at_its_first_use() -> None:
    """The server loads the file by its path under another module name, and reads no attribute."""
    done = python(SERVED)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["0", "True", "1", "AddressedGraph"]


@pytest.mark.thorough
def test_error_about_the_checkpointer_shows_code_that_works(tmp_path: Path) -> None:
    (tmp_path / "script.json").write_text('[{"text": "Hello."}]')
    done = python(
        WITHOUT_CHECKPOINTER,
        cwd=tmp_path,
        PYTHONPATH=str(ROOT),
        MODEL="scripted:script.json",
        APPROVALS="ask",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "from langgraph.checkpoint.memory import InMemorySaver",
        "graph = build_graph(checkpointer=InMemorySaver())",
        "outer = builder.compile(checkpointer=InMemorySaver())",
        "thread = await client.threads.create()",
        'client.runs.stream(thread["thread_id"], ...)',
        "Hello.",
    ]


@pytest.mark.parametrize("scope", ["shared", "thread"])
async def test_first_call_reads_no_link_on_the_event_loop(
    tmp_path: Path, scope: Literal["shared", "thread"]
) -> None:
    """LangGraph's server fails a run that reads a link on the event loop."""
    for folder in ("workspace", "skills"):
        (tmp_path / folder).mkdir()
        (tmp_path / f"link-{folder}").symlink_to(folder)
    backend = DockerExecutionBackend(
        tmp_path / "link-workspace", skills_dir=tmp_path / "link-skills", scope=scope
    )
    guard = BlockBuster()
    for name in [name for name in guard.functions if name.startswith("os.path.") or name == "os.stat"]:
        del guard.functions[name]  # LangGraph's server allows these
    guard.activate()
    try:
        with pytest.raises(BlockingError):  # the detector detects
            (tmp_path / "link-workspace").readlink()
        sandbox = backend.sandbox
    finally:
        guard.deactivate()
    assert isinstance(sandbox, DockerSandbox)
    assert sandbox.root.is_relative_to(tmp_path / "workspace")
