"""The code-block agent in a real sandbox."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.outputs import ChatGenerationChunk
from pydantic import PrivateAttr

from agent.code_graph import build_graph
from agent.settings import load_settings
from libs.backends.workspace_backend import WorkspaceBackend
from libs.models.scripted_model import Conversation, Reply, ScriptedChatModel
from tests.support.sandboxes import NEW_SANDBOX

pytestmark = pytest.mark.docker

COUNT = """\
```python
import pandas as pd
sales = pd.read_csv("/data/sales.csv")
print(len(sales))
```"""
IMPORTS = "import numpy, scipy, seaborn, pypdf, reportlab, yaml"
PLOT = """\
```python
import matplotlib
matplotlib.use("Agg")
import matplotlib.pyplot as plt
plt.plot([1, 2])
plt.savefig("/results/plot.png")
plt.close()
```"""


class Recording(ScriptedChatModel):
    """Plays its script and keeps the requests."""

    _requests: list[list[BaseMessage]] = PrivateAttr(default_factory=list)

    def _stream(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        self._requests.append(list(messages))
        return super()._stream(messages, *args, **kwargs)


def playing(*replies: str) -> Recording:
    return Recording(conversations=(Conversation(replies=tuple(Reply(text=text) for text in replies)),))


async def run(backend: WorkspaceBackend, *replies: str) -> Any:
    graph = build_graph(playing(*replies), settings=load_settings(None, approvals="auto"), backend=backend)
    return await graph.ainvoke({"messages": [HumanMessage("Count the rows of sales.csv.")]})


def outputs(result: Any) -> list[str]:
    return [each["output"].strip() for each in result["executions"]]


async def test_task_with_data_and_a_plot(backend: WorkspaceBackend, workspace: Path) -> None:
    result = await run(backend, COUNT, f"{PLOT}\n```bash\nls /results\n```", "There are 3,505 rows.")
    assert result["status"] == "completed"
    assert outputs(result) == ["3505", "", "plot.png"]
    assert (workspace / "results" / "plot.png").read_bytes().startswith(b"\x89PNG")


async def test_prompt_lists_the_files_in_data(backend: WorkspaceBackend) -> None:
    model = playing("Hello.", "Hello.")
    graph = build_graph(model, settings=load_settings(None, approvals="auto"), backend=backend)
    await graph.ainvoke({"messages": [HumanMessage("Hello")]})
    system = model._requests[0][0]
    assert "## Files in /data now" in system.text
    assert "/data/sales.csv (305,154 bytes): 3,505 rows, 6 of them exact repeats of another\n" in system.text


async def test_answer_that_names_a_missing_file_is_asked_again(backend: WorkspaceBackend) -> None:
    result = await run(
        backend,
        COUNT,
        "3,505 rows, see /results/rows.txt and /results/.",
        "```bash\necho 3505 > /results/rows.txt\n```",
        "3,505 rows, see /results/rows.txt.",
    )
    assert result["status"] == "completed"
    assert len(result["executions"]) == 2
    assert any("There is no /results/rows.txt." in message.text for message in result["messages"])


async def test_promises_of_the_prompt_hold(backend: WorkspaceBackend) -> None:
    result = await run(
        backend,
        "```bash\npwd; cd /data; touch /skills/x\n```",
        f"```bash\npwd; python3 -c '{IMPORTS}'; head -2 /skills/csv-analytics/SKILL.md\n```",
        "```python\nimport os\nprint(os.getcwd())\n```",
        "```bash\ncurl -sS -m 5 http://example.com\n```",
        *["It failed: no network."] * 4,
    )
    first, second, third, fourth = outputs(result)
    assert first.startswith("/workspace\n")
    assert "Read-only file system" in first
    assert second == "/data\n---\nname: csv-analytics"
    assert third == "/workspace"
    assert "EGRESS_ALLOW is empty: example.com is refused" in fourth


async def test_sandbox_that_ended_is_replaced_for_the_next_block(
    backend: WorkspaceBackend, workspace: Path
) -> None:
    sandbox: Any = backend.default
    ending = asyncio.create_task(
        run(backend, "```bash\ntouch begun; sleep 60\n```", "```bash\necho again\n```", "Done.")
    )
    deadline = time.monotonic() + 30
    while not (workspace / "begun").exists():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)
    sandbox.reset()
    result = await ending
    assert [each["exit_code"] for each in result["executions"]] == [125, 0]
    note = "[this block runs in /workspace: the earlier blocks' directory is unknown or cannot be entered]"
    assert outputs(result)[1] == f"{NEW_SANDBOX}{note}\nagain"
