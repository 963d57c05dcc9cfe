"""`code-agent acp`: sessions that are kept, several at once, and what keeps one from working."""

from __future__ import annotations

import asyncio
import json
import subprocess
from typing import Any

import pytest
import yaml
from acp import RequestError
from acp_editor import Editor, editing
from cli_program import PROGRAM, Program, call, execute

from libs.persistence.thread_lock import thread_lock

RUN = execute("echo ran >> /results/log; cat /results/log")


def log(program: Program) -> str:
    path = program.workspace / "results" / "log"
    return path.read_text() if path.exists() else ""


async def load(editor: Editor, program: Program, session: str) -> None:
    await editor.agent.load_session(cwd=str(program.folder), session_id=session, mcp_servers=[])


@pytest.mark.docker
async def test_a_session_is_loaded_by_the_next_process(program: Program) -> None:
    todos = [{"content": "Look", "status": "completed"}]
    program.script(call("write_todos", todos=todos), [RUN, execute("exit 4")], "It is done.", "I remember.")
    async with editing(program) as editor:
        session = await editor.new(program)
        assert await editor.prompt(session, "do it") == "end_turn"
    async with editing(program) as editor:
        await load(editor, program, session)
        kinds = [update.session_update for _, update in editor.updates]
        assert kinds == ["user_message_chunk", "tool_call", "tool_call", "agent_message_chunk", "plan"]
        assert editor.of("user_message_chunk")[0].content.text == "do it"
        assert editor.call("echo ran")["statuses"] == ["completed"]
        assert "ran" in editor.call("echo ran")["texts"][-1]
        assert editor.call("exit 4")["statuses"] == ["failed"]
        assert editor.said() == "It is done."
        assert await editor.prompt(session, "what did I ask for?") == "end_turn"
        assert editor.said().endswith("I remember.")
    assert log(program) == "ran\n"


@pytest.mark.docker
async def test_what_waited_is_asked_about_after_the_session_was_loaded(program: Program) -> None:
    program.script(RUN, "It is done.", "And that too.")
    done = program.run("run", "--json", "--thread", "kept", "do it")
    assert done.returncode == 3
    async with editing(program) as editor:
        await load(editor, program, "kept")
        assert editor.call("echo ran")["statuses"] == ["pending"]
        assert await editor.prompt("kept", "go on") == "end_turn"
        [(asked, _)] = editor.asked
        assert editor.calls().keys() == {asked.tool_call_id}
        assert editor.call("echo ran")["statuses"] == ["pending", "in_progress", "completed"]
        assert editor.said() == "It is done.And that too."
    assert log(program) == "ran\n"


@pytest.mark.docker
async def test_several_sessions_at_once(program: Program) -> None:
    names = ("one", "two", "three")
    script = [
        {
            "when": name,
            "replies": [
                {"tool_calls": [execute(f"sleep 1; echo {name} >> /results/{name}")]},
                {"text": name},
            ],
        }
        for name in names
    ]
    (program.folder / "script.yaml").write_text(yaml.safe_dump({"conversations": script}))
    async with editing(program) as editor:
        sessions = [await editor.new(program) for _ in names]
        assert len(set(sessions)) == 3
        ended = await asyncio.gather(
            *(editor.prompt(session, name) for session, name in zip(sessions, names, strict=True))
        )
        assert ended == ["end_turn"] * 3
        for session, name in zip(sessions, names, strict=True):
            assert editor.said(session) == name
            assert len(editor.calls(session)) == 1
            assert (program.workspace / "results" / name).read_text() == f"{name}\n"


async def test_bad_requests(program: Program) -> None:
    program.script("Hello.")
    async with editing(program) as editor:
        with pytest.raises(RequestError, match="begin one") as refused:
            await load(editor, program, "nowhere")
        assert refused.value.code == -32002
        with pytest.raises(RequestError, match="begin or load one"):
            await editor.prompt("nowhere", "go")
        with pytest.raises(RequestError, match="absolute path"):
            await editor.agent.new_session(cwd="folder", mcp_servers=[])
        await editor.agent.cancel(session_id="nowhere")
        with pytest.raises(RequestError) as refused:
            await editor.agent._conn.send_request("session/prompt", {"sessionId": 5})
        assert refused.value.code == -32602
        with pytest.raises(RequestError) as refused:
            await editor.agent._conn.send_request("session/nonsense", {})
        assert refused.value.code == -32601


@pytest.mark.docker
async def test_a_thread_that_another_program_works_in(program: Program) -> None:
    program.script("Hello.", "Again.")
    async with editing(program) as editor:
        session = await editor.new(program)
        assert await editor.prompt(session, "go") == "end_turn"
        with (
            thread_lock(program.folder / ".code-agent" / "locks", session),
            pytest.raises(RequestError, match="in use by another program"),
        ):
            await editor.prompt(session, "go")
        assert await editor.prompt(session, "go") == "end_turn"


@pytest.mark.parametrize(
    ("environment", "why"),
    [
        ({"MODEL": "scripted:nowhere.yaml"}, "nowhere.yaml: cannot read the script"),
        ({"SANDBOX_CPUS": "many"}, "SANDBOX_CPUS=many"),
    ],
    ids=["script", "setting"],
)
async def test_what_is_set_wrong_is_said_where_a_session_begins(
    program: Program, environment: dict[str, str], why: str
) -> None:
    program.environment |= environment
    async with editing(program) as editor:
        with pytest.raises(RequestError, match=why):
            await editor.new(program)


@pytest.mark.parametrize(
    ("environment", "why"),
    [
        ({"DOCKER_HOST": "unix:///nowhere/docker.sock"}, "No Docker Engine answers"),
        ({"SANDBOX_IMAGE": "no-such-image"}, "is not there. Build it with"),
        ({"MODEL": "", "HOME": "/nonexistent", "XDG_CACHE_HOME": "/nonexistent"}, "code-agent model fetch"),
        ({"MODEL": "anthropic:claude-sonnet-4-5"}, "ANTHROPIC_API_KEY is not set"),
    ],
    ids=["docker", "image", "model", "key"],
)
async def test_what_is_missing_is_said_where_it_is_needed(
    program: Program, environment: dict[str, str], why: str
) -> None:
    program.script("Hello.")
    program.environment |= environment
    async with editing(program) as editor:
        session = await editor.new(program)
        with pytest.raises(RequestError, match=why):
            await editor.prompt(session, "go")


@pytest.mark.docker
async def test_what_a_model_fails_with_ends_the_turn_and_not_the_session(program: Program) -> None:
    program.script("Hello.")
    async with editing(program) as editor:
        session = await editor.new(program)
        assert await editor.prompt(session, "go") == "end_turn"
        with pytest.raises(RequestError, match="script"):
            await editor.prompt(session, "go")
        assert await editor.new(program) != session


def test_nothing_but_messages_comes_out(program: Program) -> None:
    """Whatever is sent, and from another folder."""
    program.script("Hello.")
    lines: list[Any] = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}},
        "no JSON",
        [],
        {"jsonrpc": "2.0", "id": 2, "method": "session/new", "params": {"cwd": "/", "mcpServers": []}},
        {"jsonrpc": "2.0", "id": None, "result": {}},
        {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "nowhere"}},
    ]
    sent = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    with subprocess.Popen(
        [*PROGRAM, "acp", "--directory", str(program.folder)],
        cwd="/",
        env=program.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin and process.stdout and process.stderr
        process.stdin.write(f"{sent}\n")
        process.stdin.flush()
        answers = [json.loads(process.stdout.readline()) for _ in range(4)]
        process.stdin.close()
        assert process.stdout.read() == ""
        assert process.wait(20) == 0
        assert "Traceback" not in process.stderr.read()
    by_id = {answer["id"]: answer for answer in answers if answer["id"]}
    assert by_id[1]["result"]["agentInfo"]["name"] == "code-agent"
    assert by_id[2]["result"]["sessionId"]
    assert sorted(a["error"]["code"] for a in answers if a["id"] is None) == [-32700, -32600]
    assert (program.folder / ".code-agent").is_dir()


def test_a_folder_that_is_not_there_is_refused(program: Program) -> None:
    done = program.run("acp", "-C", "nowhere")
    assert (done.returncode, done.stdout) == (2, "")
    assert "nowhere" in done.stderr
