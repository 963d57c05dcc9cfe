"""Importing a served graph needs neither Docker nor a model that works (S11, D5), nor what runs them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Literal

import pytest
from blockbuster import BlockBuster, BlockingError

from agent.config import ROOT
from libs.backends.docker import DockerExecutionBackend
from libs.sandbox.container import DockerSandbox

IMPORT = "from agent.graph import graph; print(sorted(graph.nodes)[0], graph.checkpointer)"
NOT_BEFORE_A_RUN = {
    # What runs containers, and what serves their connections.
    *("docker", "libs.sandbox.container", "libs.sandbox.base", "libs.sandbox.channel", "libs.sandbox.pool"),
    *("libs.gateway.gateway", "cryptography", "h11", "publicsuffixlist"),
    # What reads replies.
    "markdown_it",
    # Patterns that take long to compile, and what takes out secrets where none is known.
    *("libs.gateway.unknown_secrets", "detect_secrets", "libs.gateway.redaction"),
    # Providers, the local model, the server and its databases, the terminal.
    *("langchain_openai", "openai", "openvino_genai", "libs.models.local", "libs.models.scripted"),
    *("agent.server", "agent.http_app", "langgraph_api", "starlette", "psycopg", "libs.persistence"),
    *("typer", "rich", "agent.cli"),
}
LOADED = """
import sys
import deepagents
before = set(sys.modules)
import {module}
print(sorted({names} & (set(sys.modules) - before)))
"""
SERVED = """
import {module} as module
from agent.served import served
print(served.cache_info().currsize)
print(module.graph is module.graph, served.cache_info().currsize)
"""
BY_PATH = """
import importlib.util
spec = importlib.util.spec_from_file_location("__agent__{file}", "agent/{file}.py")
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
print(type(module.__dict__["graph"]).__name__)
"""
ASK = """
from agent.graph import graph
graph.invoke({"messages": [("user", "hello")]})
"""


def python(program: str, cwd: Path = ROOT, **added: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"DOCKER_HOST": "unix:///nonexistent", "APPROVALS": "auto"} | added
    return subprocess.run(
        [sys.executable, "-c", program], cwd=cwd, env=environment, capture_output=True, text=True
    )


@pytest.mark.parametrize("module", ["graph", "code_graph", "exec_graph"])
@pytest.mark.parametrize("model", ["", "local", "openai:gpt-5-mini", "scripted:/gone.yaml", "nobody:nothing"])
def test_import(model: str, module: str) -> None:
    done = python(IMPORT.replace("agent.graph", f"agent.{module}"), MODEL=model)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-1] == "None", "the server brings its own checkpointer"


@pytest.mark.parametrize("module", ["agent.graph", "agent.code_graph", "agent.exec_graph"])
def test_what_only_a_run_needs_is_not_imported(tmp_path: Path, module: str) -> None:
    """Whoever makes a graph waits for all that is imported."""
    done = python(LOADED.format(module=module, names=NOT_BEFORE_A_RUN), cwd=tmp_path, PYTHONPATH=str(ROOT))
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("module", ["agent.graph", "agent.code_graph", "agent.exec_graph"])
def test_a_graph_of_ones_own_does_not_wait_for_the_served_one(module: str) -> None:
    done = python(SERVED.format(module=module))
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["0", "True", "1"]


@pytest.mark.parametrize("file", ["graph", "code_graph", "exec_graph"])
def test_the_server_finds_the_graph_in_the_dictionary(file: str) -> None:
    """It loads the file by its path, under a name of its own, and never asks by attribute."""
    done = python(BY_PATH.format(file=file))
    assert done.returncode == 0, done.stderr
    assert done.stdout == "AddressedGraph\n"


def test_a_missing_script_is_named_at_the_first_call() -> None:
    done = python(ASK, MODEL="scripted:/gone.yaml")
    assert done.returncode == 1
    assert "ModelUnavailable" in done.stderr
    assert "/gone.yaml" in done.stderr


@pytest.mark.parametrize("scope", ["shared", "thread"])
async def test_the_first_call_follows_no_link_on_an_event_loop(
    tmp_path: Path, scope: Literal["shared", "thread"]
) -> None:
    """What a sandbox needs is imported then; LangGraph's server fails a run that reads a link there."""
    for folder in ("workspace", "skills"):
        (tmp_path / folder).mkdir()
        (tmp_path / f"link-{folder}").symlink_to(folder)
    backend = DockerExecutionBackend(
        tmp_path / "link-workspace", skills_dir=tmp_path / "link-skills", scope=scope
    )
    guard = BlockBuster()
    for name in [name for name in guard.functions if name.startswith("os.path.") or name == "os.stat"]:
        del guard.functions[name]  # as LangGraph's server has it
    guard.activate()
    try:
        with pytest.raises(BlockingError):  # the detector detects
            (tmp_path / "link-workspace").readlink()
        sandbox = backend.sandbox
    finally:
        guard.deactivate()
    assert isinstance(sandbox, DockerSandbox)
    assert sandbox.root.is_relative_to(tmp_path / "workspace")
