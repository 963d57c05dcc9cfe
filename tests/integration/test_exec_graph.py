"""The one-tool agent as it is configured: scripts for models, everything else real (X1, X7, X10, X11)."""

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
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command
from pydantic import PrivateAttr

from agent.config import ROOT, load_settings
from agent.exec_graph import build_graph
from agent.exec_parts import ExecParts, build_parts
from agent.memory import forget_thread
from libs.models.scripted import Conversation, Reply, ScriptedChatModel, ToolUse
from tests.waiting import eventually

pytestmark = pytest.mark.docker

SUM = """
import json
import pandas as pd
sales = pd.read_csv("data/sales.csv")
os_results = sales.groupby("region").size()
os_results.plot.bar().figure.savefig("results/regions.png")
print(json.dumps({"ok": True, "answer": f"{len(sales)} rows.", "regions": os_results.to_dict()}))
"""
TOO_MUCH = {
    "cpu": "while True: pass",
    "memory": "x = bytearray(4 << 30)\nfor n in range(0, len(x), 4096): x[n] = 1",
    "processes": "import os\nwhile True: os.fork()",
    "disk": "with open('big', 'wb') as file:\n    while True: file.write(bytes(1 << 20))",
}
MODEST = 'print(\'{"answer": "It fits."}\')'


class Recording(ScriptedChatModel):
    """Plays its script and keeps the requests."""

    _requests: list[list[BaseMessage]] = PrivateAttr(default_factory=list)

    def _next(self, messages: Any) -> AIMessage:
        self._requests.append(list(messages))
        return super()._next(messages)


def program(code: str, **args: Any) -> Reply:
    return Reply(tool_calls=(ToolUse(name="execute_code", args={"code": code, **args}),))


def playing(*replies: Reply | str) -> Recording:
    """An answer that is made of a program's output takes a place in the script, and is not played."""
    script = tuple(Reply(text=reply) if isinstance(reply, str) else reply for reply in replies)
    return Recording(conversations=(Conversation(replies=script),))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "workspace" / "data").mkdir(parents=True)
    shutil.copy(ROOT / "workspace" / "data" / "sales.csv", tmp_path / "workspace" / "data")
    return tmp_path


@pytest.fixture
def parts(folder: Path) -> Iterator[ExecParts]:
    made = build_parts(settings(folder))
    yield made
    made.close()


def settings(folder: Path, **more: Any) -> Any:
    return load_settings(None, **{"workspace_dir": folder / "workspace", "approvals": "auto", **more})


async def run(graph: Any, task: Any, thread: str = "1") -> Any:
    given = {"messages": [HumanMessage(task)]} if isinstance(task, str) else task
    return await graph.ainvoke(given, {"configurable": {"thread_id": thread}})


async def test_a_program_on_the_persons_data_is_the_answer(folder: Path, parts: ExecParts) -> None:
    model = playing(program(SUM))
    graph = build_graph(model, settings=settings(folder), parts=parts)
    result = await run(graph, "How many rows are there, and how many by region?")
    assert (result["status"], len(model._requests)) == ("completed", 1)
    text = result["messages"][-1].text
    assert text.startswith("3505 rows.")
    assert "results/regions.png" in text
    assert (folder / "workspace/results/regions.png").read_bytes().startswith(b"\x89PNG")


async def test_the_model_is_shown_what_is_in_data(folder: Path, parts: ExecParts) -> None:
    # Two replies a run: the model is asked once about an answer without a program.
    model = playing(*["Hello."] * 6)
    graph = build_graph(model, settings=settings(folder), parts=parts)
    await run(graph, "Good morning")
    assert "## Files in /data now" in model._requests[0][0].text
    assert "/data/sales.csv (305,154 bytes): 3,505 rows" in model._requests[0][0].text
    assert "- region: " in model._requests[0][0].text
    (folder / "workspace" / "data" / "people.json").write_text('[{"name": "Ada"}]')
    await run(graph, "Good morning")
    assert "/data/people.json" in model._requests[2][0].text
    shutil.rmtree(folder / "workspace" / "data")
    await run(graph, "Good morning")
    assert "## Files in /data now" not in model._requests[4][0].text


async def test_data_can_only_be_read(folder: Path, parts: ExecParts) -> None:
    code = (
        "import os\nfor path in ('data/x', '/data/x', '/mnt/workspace/x'):\n"
        "    try: open(path, 'w')\n    except OSError as error: print(error.errno)\nprint('[1]')"
    )
    graph = build_graph(playing(program(code)), settings=settings(folder), parts=parts)
    result = await run(graph, "Try to write.")
    [message] = [each for each in result["messages"] if each.type == "tool"]
    assert message.artifact["stdout"] == "30\n30\n30\n[1]\n"
    assert sorted(path.name for path in (folder / "workspace" / "data").iterdir()) == ["sales.csv"]


async def test_a_link_in_the_place_of_data_leads_nowhere_on_the_host(folder: Path, parts: ExecParts) -> None:
    """A command of another agent may have made it: it is followed inside."""
    secret = folder / "secret"
    secret.mkdir()
    (secret / "key").write_text("4711")
    shutil.rmtree(folder / "workspace" / "data")
    (folder / "workspace" / "data").symlink_to(secret)
    code = "import os, json\nprint(json.dumps([os.path.exists('data/key'), os.path.isdir('data')]))"
    result = await run(build_graph(playing(program(code)), settings=settings(folder), parts=parts), "Look.")
    assert "false,\n  false" in result["messages"][-1].text


async def test_a_helper_of_one_step_in_a_later_one_and_values(folder: Path, parts: ExecParts) -> None:
    model = playing(
        program(
            "import kv\nkv.put('seen', 1)\nopen('helpers.py', 'w').write('def f(): return 42')\nprint('[1]')"
        ),
        "(the answer)",
        program("import helpers, kv\nprint('{\"answer\": \"%s %s\"}' % (helpers.f(), kv.get('seen')))"),
    )
    graph = build_graph(model, settings=settings(folder), parts=parts, checkpointer=InMemorySaver())
    await run(graph, "Save a helper.")
    result = await run(graph, "Use it.")
    assert result["messages"][-1].text == "42 1"


@pytest.mark.parametrize("kind", TOO_MUCH)
async def test_the_agent_tries_smaller(folder: Path, kind: str) -> None:
    chosen = settings(
        folder,
        exec_seconds=5 if kind == "cpu" else 60,
        sandbox_memory="256m",
        sandbox_tmp="16m",
        sandbox_pids=64,
        exec_disk="32m",
    )
    model, parts = playing(program(TOO_MUCH[kind]), program(MODEST)), build_parts(chosen)
    result = await run(build_graph(model, settings=chosen, parts=parts), "Do it.")
    parts.close()
    assert (result["status"], result["messages"][-1].text) == ("completed", "It fits.")
    told = json.loads(model._requests[1][-1].text)
    assert told["error"]["class"] == kind
    assert told["error"]["hint"]


async def test_the_output_is_seen_while_it_comes(folder: Path, parts: ExecParts) -> None:
    graph = build_graph(
        playing(program("import time; print('first', flush=True); time.sleep(1); print('[1]')")),
        settings=settings(folder),
        parts=parts,
    )
    events = [
        event async for event in graph.astream({"messages": [HumanMessage("go")]}, stream_mode="custom")
    ]
    assert "".join(event["text"] for event in events if event["type"] == "output") == "first\n[1]\n"


async def test_what_looks_like_a_secret_is_pointed_at(folder: Path, parts: ExecParts) -> None:
    token = "ghp_" + "R7kQ2mXz9LwP4vTnY6sBc1Jd8HfG3uEaWq5o"
    graph = build_graph(playing(program(f"print('{token}')")), settings=settings(folder), parts=parts)
    events = [
        event async for event in graph.astream({"messages": [HumanMessage("go")]}, stream_mode="custom")
    ]
    [found] = [event for event in events if event["type"] == "secret_suspected"]
    assert token not in json.dumps(found)


def test_synchronous_callers_too(folder: Path, parts: ExecParts) -> None:
    graph = build_graph(
        playing(program("print(7)")), settings=settings(folder), parts=parts, checkpointer=InMemorySaver()
    )
    result = graph.invoke({"messages": [HumanMessage("go")]}, {"configurable": {"thread_id": "1"}})
    assert "7" in result["messages"][-1].text


async def test_a_run_without_a_thread_keeps_nothing(folder: Path, parts: ExecParts) -> None:
    code = "import os\nprint(os.path.exists('x'))\nopen('x', 'w').close()\nprint('[1]')"
    for _ in range(2):
        graph = build_graph(playing(program(code)), settings=settings(folder), parts=parts)
        result = await graph.ainvoke({"messages": [HumanMessage("go")]})
        [message] = [each for each in result["messages"] if each.type == "tool"]
        assert message.artifact["stdout"].startswith("False")


async def test_a_thread_that_is_deleted_leaves_nothing(folder: Path, parts: ExecParts) -> None:
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
    await forget_thread(settings(folder), "gone")
    assert [parts.database.wait(lambda do, sql=sql: do(sql))[0][0] for sql in counts] == [0, 0, 0]


COUNTED = "import kv, time; kv.put('runs', kv.get('runs', 0) + 1); print('on', flush=True); time.sleep(60)"

KILLED = """
import asyncio, sys
from pathlib import Path
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from tests.integration.test_exec_graph import COUNTED, build_graph, build_parts, playing, program, settings

async def main():
    async with AsyncSqliteSaver.from_conn_string("threads.sqlite") as saver:
        graph = build_graph(
            playing(program(COUNTED)),
            settings=settings(Path.cwd()),
            parts=build_parts(settings(Path.cwd())),
            checkpointer=saver,
        )
        async for event in graph.astream(
                {"messages": [HumanMessage("go")]}, {"configurable": {"thread_id": "1"}},
                stream_mode="custom", durability="sync"):
            print("on", flush=True)

asyncio.run(main())
"""


async def test_a_killed_run_that_goes_on_runs_no_program_twice(folder: Path) -> None:
    host = subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, "-c", KILLED], stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert host.stdout and host.stdout.readline() == b"on\n"
    host.kill()
    host.wait()
    host.stdout.close()
    parts = build_parts(settings(folder))
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


async def test_an_approved_program_runs_after_a_restart(folder: Path) -> None:
    model = playing(program('print(\'{"answer": "ran"}\')'))
    chosen = settings(folder, approvals="ask")
    with SqliteSaver.from_conn_string("threads.sqlite") as saver:
        for given in (
            {"messages": [HumanMessage("go")]},
            Command(resume={"decisions": [{"type": "approve"}]}),
        ):
            parts = build_parts(chosen)
            graph = build_graph(model, settings=chosen, parts=parts, checkpointer=saver)
            result = graph.invoke(given, {"configurable": {"thread_id": "1"}})
            parts.close()
    assert (result["status"], result["messages"][-1].text) == ("completed", "ran")


async def test_threads_with_sandboxes_of_their_own_share_data_alone(folder: Path) -> None:
    chosen = settings(folder, sandbox_scope="thread")
    parts = build_parts(chosen)
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


async def test_a_spare_is_started_while_the_model_thinks(folder: Path, parts: ExecParts) -> None:
    class Slow(Recording):
        def _next(self, messages: Any) -> AIMessage:
            eventually(lambda: len(parts.runner._sandboxes._ready) == 1)
            return super()._next(messages)

    model = Slow(conversations=playing(program("print(1)")).conversations)
    result = await run(build_graph(model, settings=settings(folder), parts=parts), "go")
    [message] = [each for each in result["messages"] if each.type == "tool"]
    assert message.artifact["ok"]
