"""Importing the deep agent, with and without the graph that is served, in fresh interpreters."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator

from agent.config import ROOT
from tests.bench.measure import Figure, interleaved

_PLAIN = "from deepagents import create_deep_agent"
_BUILT = """
from deepagents import create_deep_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
create_deep_agent(GenericFakeChatModel(messages=iter([])))
"""


def _fresh(program: str) -> Callable[[], object]:
    return lambda: subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)


def figures() -> Iterator[Figure]:
    times = interleaved(
        {
            "importing deepagents": _fresh(_PLAIN),
            "and building its plain agent": _fresh(_BUILT),
            "sandbox": _fresh("import agent.graph"),
            "and building what is served": _fresh("from agent.graph import graph"),
        },
        rounds=15,
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
