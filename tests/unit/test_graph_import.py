"""Importing the served graph needs neither Docker nor a model that works (S11, D5)."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

IMPORT = "from agent.graph import graph; print(sorted(graph.nodes)[0], graph.checkpointer)"
ASK = """
from agent.graph import graph
graph.invoke({"messages": [("user", "hello")]})
"""


def python(program: str, **added: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"DOCKER_HOST": "unix:///nonexistent", "APPROVALS": "auto"} | added
    return subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)


@pytest.mark.parametrize("model", ["", "local", "openai:gpt-5-mini", "scripted:/gone.yaml", "nobody:nothing"])
def test_import(model: str) -> None:
    done = python(IMPORT, MODEL=model)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-1] == "None", "the server brings its own checkpointer"


def test_a_missing_script_is_named_at_the_first_call() -> None:
    done = python(ASK, MODEL="scripted:/gone.yaml")
    assert done.returncode == 1
    assert "ModelUnavailable" in done.stderr
    assert "/gone.yaml" in done.stderr
