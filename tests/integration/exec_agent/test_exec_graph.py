"""The configured one-tool agent with a scripted model and real containers."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver

from agent.exec_graph import build_graph
from agent.parts.exec_parts import ExecParts, build_exec_parts
from agent.settings import ROOT, load_settings
from agent.threads.memory_store import kept_data
from tests.support.exec_tool.exec_runners import playing, program

pytestmark = pytest.mark.docker

SUM = """
import json
import pandas as pd
sales = pd.read_csv("data/sales.csv")
os_results = sales.groupby("region").size()
os_results.plot.bar().figure.savefig("results/regions.png")
print(json.dumps({"ok": True, "answer": f"{len(sales)} rows.", "regions": os_results.to_dict()}))
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "workspace" / "data").mkdir(parents=True)
    shutil.copy(ROOT / "workspace" / "data" / "sales.csv", tmp_path / "workspace" / "data")
    return tmp_path


@pytest.fixture
def parts(folder: Path) -> Iterator[ExecParts]:
    made = build_exec_parts(settings(folder))
    yield made
    made.close()


def settings(folder: Path, **more: Any) -> Any:
    return load_settings(
        None, **{"workspace_dir": folder / "workspace", "approvals": "auto", "exec_seconds": 120, **more}
    )


async def run(graph: Any, task: Any, thread: str = "1") -> Any:
    given = {"messages": [HumanMessage(task)]} if isinstance(task, str) else task
    return await graph.ainvoke(given, {"configurable": {"thread_id": thread}})


async def test_program_on_data_gives_the_answer(folder: Path, parts: ExecParts) -> None:
    model = playing(program(SUM))
    graph = build_graph(model, settings=settings(folder), parts=parts)
    result = await run(graph, "How many rows are there, and how many by region?")
    assert (result["status"], len(model._requests)) == ("completed", 1)
    text = result["messages"][-1].text
    assert text.startswith("3505 rows.")
    assert "results/regions.png" in text
    assert (folder / "workspace/results/regions.png").read_bytes().startswith(b"\x89PNG")


async def test_prompt_lists_the_files_in_data(folder: Path, parts: ExecParts) -> None:
    # Two replies a run: the model is asked once about an answer without a program.
    model = playing(*["Hello."] * 4)
    graph = build_graph(model, settings=settings(folder), parts=parts)
    await run(graph, "Good morning")
    assert "## Files in /data now" in model._requests[0][0].text
    assert "/data/sales.csv (305,154 bytes): 3,505 rows" in model._requests[0][0].text
    assert "- region: " in model._requests[0][0].text
    shutil.rmtree(folder / "workspace" / "data")
    await run(graph, "Good morning")
    assert "## Files in /data now" not in model._requests[2][0].text


async def test_data_is_read_only(folder: Path, parts: ExecParts) -> None:
    code = (
        "import os\nfor path in ('data/x', '/data/x', '/mnt/workspace/x'):\n"
        "    try: open(path, 'w')\n    except OSError as error: print(error.errno)\nprint('[1]')"
    )
    graph = build_graph(playing(program(code)), settings=settings(folder), parts=parts)
    result = await run(graph, "Try to write.")
    [message] = [each for each in result["messages"] if each.type == "tool"]
    assert message.artifact["stdout"] == "30\n30\n30\n[1]\n"
    assert sorted(path.name for path in (folder / "workspace" / "data").iterdir()) == ["sales.csv"]


async def test_answer_tells_of_an_integer_that_a_checkpoint_cannot_hold(
    folder: Path, parts: ExecParts
) -> None:
    model = playing(program("print('[%d]' % 3**60)"))
    graph = build_graph(model, settings=settings(folder), parts=parts, checkpointer=InMemorySaver())
    result = await run(graph, "What is the sixtieth power of three?")
    assert result["status"] == "completed"
    assert "4.23911582752162e+28" in result["messages"][-1].text
    assert (
        "[Numbers with more digits than a double holds are rounded in the result.]"
        in result["messages"][-1].text
    )


async def test_link_instead_of_data_does_not_reach_the_host(folder: Path, parts: ExecParts) -> None:
    """A command of another agent may have made the link. It is followed inside the container only."""
    secret = folder / "secret"
    secret.mkdir()
    (secret / "key").write_text("4711")
    shutil.rmtree(folder / "workspace" / "data")
    (folder / "workspace" / "data").symlink_to(secret)
    code = "import os, json\nprint(json.dumps([os.path.exists('data/key'), os.path.isdir('data')]))"
    result = await run(build_graph(playing(program(code)), settings=settings(folder), parts=parts), "Look.")
    assert "false,\n  false" in result["messages"][-1].text


@pytest.mark.thorough
async def test_files_and_values_outlive_the_checkpointer(folder: Path) -> None:
    """docs/python.md: a later process with the same thread id has them, although its thread is new."""
    programs = (
        "import kv; kv.put('k', 1); open('x', 'w').write('kept'); print('[0]')",
        "import json, kv; print(json.dumps([kv.get('k'), open('x').read()]))",
    )
    for code in programs:
        parts = build_exec_parts(settings(folder))
        graph = build_graph(
            playing(program(code)), settings=settings(folder), parts=parts, checkpointer=InMemorySaver()
        )
        result = await run(graph, "Go on.", "kept")
        parts.close()
    assert [message.type for message in result["messages"]].count("human") == 1
    assert json.loads(result["messages"][-2].content)["result"] == [1, "kept"]


async def test_deleted_thread_leaves_nothing(folder: Path, parts: ExecParts) -> None:
    graph = build_graph(
        playing(program("import kv; kv.put('k', 1); open('x', 'w').write('1'); print('[1]')")),
        settings=settings(folder),
        parts=parts,
        checkpointer=InMemorySaver(),
    )
    await run(graph, "Keep something.", "gone")
    counts = [
        f"SELECT count(*) FROM thread_{name} WHERE thread = 'gone'"
        for name in ("files", "values", "messages")
    ]
    assert all(parts.database.wait(lambda do, sql=sql: do(sql))[0][0] for sql in counts)
    async with kept_data(settings(folder)) as stores:
        for store in stores:
            await store.forget("gone")
    assert [parts.database.wait(lambda do, sql=sql: do(sql))[0][0] for sql in counts] == [0, 0, 0]


COUNTED = "import kv, time; kv.put('runs', kv.get('runs', 0) + 1); print('on', flush=True); time.sleep(60)"

KILLED = """
import asyncio, sys
from pathlib import Path
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from tests.integration.exec_agent.test_exec_graph import COUNTED, build_exec_parts, build_graph, playing
from tests.integration.exec_agent.test_exec_graph import program, settings

async def main():
    async with AsyncSqliteSaver.from_conn_string("threads.sqlite") as saver:
        graph = build_graph(
            playing(program(COUNTED)),
            settings=settings(Path.cwd()),
            parts=build_exec_parts(settings(Path.cwd())),
            checkpointer=saver,
        )
        async for event in graph.astream(
                {"messages": [HumanMessage("go")]}, {"configurable": {"thread_id": "1"}},
                stream_mode="custom", durability="sync"):
            print("on", flush=True)

asyncio.run(main())
"""


@pytest.mark.thorough
async def test_killed_run_does_not_repeat_its_program(folder: Path) -> None:
    host = subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, "-c", KILLED], stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert host.stdout and host.stdout.readline() == b"on\n"
    host.kill()
    host.wait()
    host.stdout.close()
    parts = build_exec_parts(settings(folder))
    model = playing(
        program("never played"), program("import kv; print('{\"answer\": \"%s run\"}' % kv.get('runs'))")
    )
    with SqliteSaver.from_conn_string("threads.sqlite") as saver:
        graph = build_graph(model, settings=settings(folder), parts=parts, checkpointer=saver)
        result = graph.invoke(None, {"configurable": {"thread_id": "1"}})
    parts.close()
    told = json.loads(model._requests[0][-1].text)
    assert told["error"]["class"] == "interrupted"
    assert result["messages"][-1].text == "1 run"


async def test_scope_thread_shares_only_data(folder: Path) -> None:
    chosen = settings(folder, sandbox_scope="thread")
    parts = build_exec_parts(chosen)
    (folder / "workspace" / "threads" / "other").mkdir(parents=True)
    (folder / "workspace" / "threads" / "other" / "secret").write_text("x")
    code = "import os, json\nprint(json.dumps([sorted(os.listdir('data')), os.listdir('/mnt/workspace')]))"
    result = await run(build_graph(playing(program(code)), settings=chosen, parts=parts), "Look.")
    [message] = [each for each in result["messages"] if each.type == "tool"]
    assert message.artifact["result"] == [["sales.csv"], ["data"]]
    code = "open('results/x', 'w').write('1'); print('[1]')"
    graph = build_graph(playing(program(code)), settings=chosen, parts=parts, checkpointer=InMemorySaver())
    await run(graph, "Write.", "mine")
    parts.close()
    assert (folder / "workspace/threads/mine/results/x").read_text() == "1"
