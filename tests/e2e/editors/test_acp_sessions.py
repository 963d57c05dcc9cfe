"""`code-agent acp`: loaded sessions, several sessions at once, errors."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest
from acp import RequestError

from libs.persistence.locked_thread import thread_lock
from tests.clients.acp_editor import Editor, editing
from tests.clients.cli_program import PROGRAM, Program, call, execute

RUN = execute("echo ran >> /results/log; cat /results/log")


async def load(editor: Editor, program: Program, session: str) -> None:
    await editor.agent.load_session(cwd=str(program.folder), session_id=session, mcp_servers=[])


@pytest.mark.docker
@pytest.mark.thorough
async def test_session_is_loaded_by_the_next_process(program: Program) -> None:
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
    assert program.log == "ran\n"


@pytest.mark.thorough
@pytest.mark.docker
async def test_loaded_session_asks_its_pending_question(program: Program) -> None:
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
    assert program.log == "ran\n"


@pytest.mark.thorough
@pytest.mark.docker
async def test_refused_requests_end_no_session(program: Program) -> None:
    program.script("Hello.")
    async with editing(program) as editor:
        session = await editor.new(program)
        with thread_lock(program.folder / ".code-agent" / "locks", session):
            with pytest.raises(RequestError, match="in use by another program"):
                await editor.prompt(session, "go")
            other = await editor.new(program)
            assert await editor.prompt(other, "go") == "end_turn"
        with pytest.raises(RequestError, match="the script has"):
            await editor.prompt(other, "go")
        with pytest.raises(RequestError, match="begin one") as refused:
            await load(editor, program, "nowhere")
        assert refused.value.code == -32002
        with pytest.raises(RequestError, match="absolute path"):
            await editor.agent.new_session(cwd="folder", mcp_servers=[])
        with pytest.raises(RequestError) as refused:
            await editor.agent._conn.send_request("session/prompt", {"sessionId": 5})
        assert refused.value.code == -32602
        assert await editor.prompt(session, "go") == "end_turn"


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "value", "begins", "why"),
    [
        ("SANDBOX_CPUS", "many", False, "SANDBOX_CPUS=many"),
        ("MODEL", "scripted:nowhere.yaml", False, "nowhere.yaml: cannot read"),
        ("MODEL", "anthropic:claude-sonnet-4-5", True, "ANTHROPIC_API_KEY is not set"),
        ("DOCKER_HOST", "unix:///nowhere/docker.sock", True, "No Docker Engine answers"),
    ],
)
async def test_wrong_setting_is_named_where_it_is_first_used(
    program: Program, name: str, value: str, begins: bool, why: str
) -> None:
    """Unreadable settings fail the new session. Everything else fails the first prompt."""
    program.script("Hello.")
    program.environment[name] = value
    async with editing(program) as editor:
        session = await editor.new(program) if begins else ""
        with pytest.raises(RequestError, match=why):
            await (editor.prompt(session, "go") if begins else editor.new(program))


@pytest.mark.thorough
def test_stdout_holds_protocol_messages_only(program: Program) -> None:
    """The program is started in another folder than its --directory."""
    program.script("Hello.")
    lines: list[Any] = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}},
        "no JSON",
        {"jsonrpc": "2.0", "id": 2, "method": "session/new", "params": {"cwd": "/", "mcpServers": []}},
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
        answers = [json.loads(process.stdout.readline()) for _ in range(2)]
        process.stdin.close()
        assert process.stdout.read() == ""
        assert process.wait(20) == 0
    results = {answer["id"]: answer["result"] for answer in answers}
    assert results[1]["agentInfo"]["name"] == "code-agent"
    assert results[2]["sessionId"]
    assert (program.folder / ".code-agent").is_dir()
