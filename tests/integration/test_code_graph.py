"""The code-block agent in the real sandbox, as it is configured."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.outputs import ChatGenerationChunk
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import PrivateAttr

from agent.code_graph import build_graph
from agent.config import ROOT, build_backend, load_settings
from libs.backends.workspace import WorkspaceBackend
from libs.models.scripted import Conversation, Reply, ScriptedChatModel

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


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    shutil.copy(ROOT / "workspace" / "data" / "sales.csv", tmp_path / "data")
    return tmp_path


@pytest.fixture
async def backend(workspace: Path) -> AsyncIterator[WorkspaceBackend]:
    backend = build_backend(load_settings(None, workspace_dir=workspace))
    with backend.default:  # type: ignore[attr-defined]
        yield backend


def playing(*replies: str) -> Recording:
    return Recording(conversations=(Conversation(replies=tuple(Reply(text=text) for text in replies)),))


async def run(backend: WorkspaceBackend, *replies: str) -> Any:
    graph = build_graph(playing(*replies), settings=load_settings(None, approvals="auto"), backend=backend)
    return await graph.ainvoke({"messages": [HumanMessage("Count the rows of sales.csv.")]})


def outputs(result: Any) -> list[str]:
    return [each["output"].strip() for each in result["executions"]]


async def test_a_task_with_data_and_a_plot(backend: WorkspaceBackend, workspace: Path) -> None:
    result = await run(backend, COUNT, f"{PLOT}\n```bash\nls /results\n```", "There are 3,505 rows.")
    assert result["status"] == "completed"
    assert outputs(result) == ["3505", "", "plot.png"]
    assert (workspace / "results" / "plot.png").read_bytes().startswith(b"\x89PNG")


async def test_python_blocks_share_an_interpreter(backend: WorkspaceBackend, workspace: Path) -> None:
    figure = "import matplotlib.pyplot as plt\nline = plt.plot(numbers)"
    result = await run(
        backend,
        "```python\nnumbers = [1, 2, 3]\nsum(numbers)\n```",
        f"```python\n{figure}\n```",
        "The sum is 6.",
    )
    first, second = outputs(result)
    assert first == "6"
    [plot] = (workspace / "results").glob("*.png")
    assert f"/results/{plot.name}" in second


async def test_runs_without_a_thread_share_nothing(backend: WorkspaceBackend) -> None:
    await run(backend, "```bash\ncd /data\n```\n```python\nx = 1\n```", "Done.")
    result = await run(backend, "```bash\npwd\n```\n```python\nprint('x' in globals())\n```", "Done.")
    assert outputs(result) == ["/workspace", "False"]


async def test_the_model_is_told_what_is_in_data(backend: WorkspaceBackend, workspace: Path) -> None:
    (workspace / "data" / "people.json").write_text('[{"name": "Ada", "born": 1815}]')
    model = playing("Hello.", "Hello.")
    graph = build_graph(model, settings=load_settings(None, approvals="auto"), backend=backend)
    await graph.ainvoke({"messages": [HumanMessage("Hello")]})
    system = model._requests[0][0]
    assert "## Files in /data now" in system.text
    assert "/data/sales.csv (305,154 bytes): 3,505 rows, 6 of them exact repeats of another\n" in system.text
    assert "\n- order_date: dates 2023-01-01 to 2024-12-31\n" in system.text
    assert "/data/people.json (31 bytes): list of 1 objects\n- name: text: 'Ada' 1\n" in system.text


async def test_pdf_files_are_listed_with_their_text(backend: WorkspaceBackend, workspace: Path) -> None:
    await run(
        backend,
        "```python\nfrom skills.pdf import generate\ngenerate('# Pumps\\n\\nPump B: 230 V', 'manual')\n```",
        "Done.",
    )
    (workspace / "results" / "manual.pdf").rename(workspace / "data" / "manual.pdf")
    (workspace / "data" / "broken.pdf").write_bytes(b"%PDF-1.7 broken")
    model = playing("Hello.", "Hello.")
    graph = build_graph(model, settings=load_settings(None, approvals="auto"), backend=backend)
    await graph.ainvoke({"messages": [HumanMessage("Hello")]})
    system = model._requests[0][0]
    assert "/data/broken.pdf (15 bytes): cannot be read\n" in system.text
    listed = system.text.partition("/data/manual.pdf (")[2]
    assert listed.partition("bytes): ")[2].startswith("1 page, beginning with\n  ")
    assert "\n  Pump B: 230 V\n" in listed


async def test_a_file_that_the_answer_claims_must_be_there(backend: WorkspaceBackend) -> None:
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


async def test_what_the_prompt_promises_holds(backend: WorkspaceBackend) -> None:
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


async def test_an_approved_block_runs_once_after_the_answer(
    backend: WorkspaceBackend, workspace: Path
) -> None:
    settings = load_settings(None, approvals="ask")
    model = playing("```bash\necho ran >> ran.txt\n```", "Done.")
    graph = build_graph(model, settings=settings, backend=backend, checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "1"}}
    waiting = await graph.ainvoke({"messages": [HumanMessage("Run it.")]}, config)
    [question] = [each.value for each in waiting["__interrupt__"]]
    assert [each["name"] for each in question["action_requests"]] == ["execute_code"]
    assert not (workspace / "ran.txt").exists()
    result = await graph.ainvoke(Command(resume={"decisions": [{"type": "approve"}]}), config)
    assert result["status"] == "completed"
    assert (workspace / "ran.txt").read_text() == "ran\n"


async def test_output_is_seen_while_a_block_runs(backend: WorkspaceBackend) -> None:
    model = playing(
        "```python\nimport time\nprint('first', flush=True)\ntime.sleep(2)\nprint('last')\n```", "Done."
    )
    graph = build_graph(model, settings=load_settings(None, approvals="auto"), backend=backend)
    seen: list[tuple[float, dict[str, Any]]] = []
    async for event in graph.astream({"messages": [HumanMessage("Run it.")]}, stream_mode="custom"):
        seen.append((time.monotonic(), event))
    kinds = [event["type"] for _, event in seen]
    assert kinds == ["code", "output", "output", "execution"]
    assert [event["text"] for _, event in seen if event["type"] == "output"] == ["first\n", "last\n"]
    assert {event.get("tool_call_id", event.get("id")) for _, event in seen} == {seen[0][1]["id"]}
    assert seen[-1][0] - seen[1][0] > 1.5


async def test_cancelling_a_run_ends_its_block(backend: WorkspaceBackend, workspace: Path) -> None:
    running = asyncio.create_task(run(backend, "```bash\ntouch begun; sleep 5; touch never\n```", "Done."))
    deadline = time.monotonic() + 30
    while not (workspace / "begun").exists():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    found = await backend.aexecute("sleep 0.5; pgrep -c sleep")
    assert found.output.strip() == "0"
    assert not (workspace / "never").exists()


async def test_a_sandbox_that_ends_in_a_block_is_replaced_for_the_next(
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
    assert outputs(result)[1] == "again"
