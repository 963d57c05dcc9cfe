"""Importing the served graph, in fresh interpreters."""

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
        },
        rounds=25,
        warm_up=2,
    )
    factor = times.median("sandbox") / times.median("importing deepagents")
    built = times.median("sandbox") / times.median("and building its plain agent")
    yield times.figure(
        "importing agent.graph, a built agent",
        "at most 1.1 x importing deepagents",
        factor <= 1.1,
        note=f"{factor:.2f} x importing deepagents, {built:.2f} x building a plain agent besides",
    )
