"""Importing the deep agent, with and without the graph that is served, in fresh interpreters."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator

from agent.config import ROOT
from tests.bench.measure import Figure, interleaved

_PLAIN = "from deepagents import create_deep_agent"
_BUILT = """
from deepagents import create_deep_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
create_deep_agent(GenericFakeChatModel(messages=iter([])))
"""


def _fresh(program: str, compiled: str) -> Callable[[], object]:
    """Run a program in an interpreter of its own, which keeps bytecode in the folder `compiled`.

    pip has compiled deepagents. Where PYTHONDONTWRITEBYTECODE is set, as in many images, each run would
    compile our own modules anew, and the figure would be that of the compiler.
    """
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    env["PYTHONPYCACHEPREFIX"] = compiled
    return lambda: subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=env, check=True)


def figures() -> Iterator[Figure]:
    programs = {
        "importing deepagents": _PLAIN,
        "and building its plain agent": _BUILT,
        "sandbox": "import agent.graph",
        "and building what is served": "from agent.graph import graph",
    }
    with tempfile.TemporaryDirectory() as compiled:
        times = interleaved(
            {name: _fresh(program, compiled) for name, program in programs.items()},
            rounds=25,
            warm_up=1,
        )
    plain = times.median("importing deepagents")
    factor, floor, served = (
        times.median(name) / plain
        for name in ("sandbox", "and building its plain agent", "and building what is served")
    )
    yield times.figure(
        "importing agent.graph",
        "at most 1.1 x importing deepagents",
        factor <= 1.1,
        note=f"{factor:.2f} x importing deepagents; with the graph that LangGraph's server asks for "
        f"{served:.2f} x; deepagents with a plain agent {floor:.2f} x",
    )
