"""Counts the questions that ten sample tasks ask a person, by the setting of APPROVALS.

A script plays the model. The deep agent, the sandbox and the files are real, and every question is approved.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from agent.config import build_backend
from agent.graph import build_graph
from agent.settings import load_settings
from libs.backends.docker import DockerExecutionBackend
from libs.models.scripted_model import ScriptedChatModel
from tests.bench.bench_sandboxes import image, runtime
from tests.bench.measure import Figure

_SCRIPT: Final = Path(__file__).with_name("sample_tasks.yaml")
_RULES: Final = """[[rule]]
tool = "execute"
prefix = [["cat", "cut", "du", "grep", "head", "ls", "tail", "uniq", "wc"]]
decision = "allow"
match = ["head -3 /data/sales.csv", "ls /data | wc -l"]
not_match = ["cat a > b", "rm /data/a"]

[[rule]]
tool = "execute"
prefix = ["sort"]
decision = "allow"

[[rule]]
tool = "execute"
prefix = ["git", "push"]
decision = "deny"
"""
_DATA: Final = {
    "sales.csv": "region,units\nnorth,10\nsouth,20\n",
    "old.csv": "region,units\n",
    "notes.md": "The north grows.\n",
}
_SETTINGS: Final[dict[str, dict[str, Any]]] = {
    "sandbox": {"approvals": "effects"},
    "ask": {"approvals": "ask"},
    "ask with rules": {"approvals": "ask", "approval_rules": Path("rules.toml")},
    "auto": {"approvals": "auto"},
}


def figures(root: Path) -> Iterator[Figure]:
    counts = {}
    for name, settings in _SETTINGS.items():
        place = root / name.replace(" ", "-")
        data = place / "workspace" / "data"
        data.mkdir(parents=True)
        for file, text in _DATA.items():
            (data / file).write_text(text)
        (place / "rules.toml").write_text(_RULES)
        with contextlib.chdir(place):
            counts[name] = float(asyncio.run(_questions(place / "workspace", settings)))
    yield Figure(
        "questions of ten tasks (sandbox: effects)",
        "questions",
        counts,
        "fewer than with rules",
        counts["auto"] == 0 < counts["sandbox"] < counts["ask with rules"] < counts["ask"],
    )


async def _questions(workspace: Path, given: dict[str, Any]) -> int:
    """Carry out the tasks, and return how many calls a person was asked about."""
    settings = load_settings(None, workspace_dir=workspace, image=image(), sandbox_runtime=runtime(), **given)
    model = ScriptedChatModel.from_file(_SCRIPT)
    backend = build_backend(settings)
    computer = backend.default
    assert isinstance(computer, DockerExecutionBackend)
    try:
        graph = build_graph(model, settings=settings, backend=backend, checkpointer=InMemorySaver())
        return sum([await _asked(graph, task.when, len(task.replies)) for task in model.conversations])
    finally:
        await computer.sandbox.aclose()


async def _asked(graph: Any, task: str, replies: int) -> int:
    """Carry out a task, and approve all that is asked. Return the number of calls in the questions."""
    thread: RunnableConfig = {"configurable": {"thread_id": task}}
    state = await graph.ainvoke({"messages": [("user", task)]}, thread)
    count = 0
    while asked := state.get("__interrupt__"):
        answers = {}
        for question in asked:
            requests = question.value["action_requests"]
            count += len(requests)
            answers[question.id] = {"decisions": [{"type": "approve"}] * len(requests)}
        state = await graph.ainvoke(Command(resume=answers), thread)
    done = [message for message in state["messages"] if message.type == "ai"]
    assert len(done) == replies, f"{task}: the script was not played to its end"
    return count
