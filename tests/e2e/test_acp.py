"""`code-agent acp` as an editor uses it: turns, approvals, live output, the plan, cancelling."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest
import yaml
from acp import RequestError, embedded_text_resource, image_block, resource_block, resource_link_block
from acp import text_block as text
from acp_editor import Editor, editing
from cli_program import Program, call, containers_of, execute, processes_of

pytestmark = pytest.mark.docker

RUN, OTHER = execute("echo ran >> /results/log; cat /results/log"), execute("echo other >> /results/log")


def log(program: Program) -> str:
    path = program.workspace / "results" / "log"
    return path.read_text() if path.exists() else ""


async def test_a_turn_with_an_approval(program: Program) -> None:
    program.script({**RUN}, "It is done, in quite a few words.")
    async with editing(program) as editor:
        hello = await editor.agent.initialize(protocol_version=1)
        assert (hello.protocol_version, hello.agent_capabilities.load_session) == (1, True)
        session = await editor.new(program)
        assert await editor.prompt(session, "go") == "end_turn"
        [(asked, options)] = editor.asked
        kinds = [(option.option_id, option.kind) for option in options]
        assert kinds == [
            ("approve", "allow_once"),
            ("approve_command", "allow_always"),
            ("approve_tool", "allow_always"),
            ("reject", "reject_once"),
        ]
        assert asked.title == RUN["args"]["command"]
        assert RUN["args"]["command"] in asked.content[0].content.text
        assert asked.raw_input == RUN["args"]
        [(call_id, done)] = editor.calls().items()
        assert asked.tool_call_id == call_id
        assert done["statuses"] == ["pending", "in_progress", "completed"]
        assert done["kind"] == "execute"
        assert any("ran" in part for part in done["texts"])
        assert "exit 0" in done["texts"][-1]
        assert len(editor.of("agent_message_chunk")) > 1
        assert editor.said() == "It is done, in quite a few words."
        assert len({chunk.message_id for chunk in editor.of("agent_message_chunk")}) == 1
    assert log(program) == "ran\n"


async def test_rejected_runs_nothing_and_several_calls_are_asked_about_one_by_one(program: Program) -> None:
    program.script([RUN, call("ls", path="/workspace"), OTHER], "As you wish.")

    def choose(asked: Any) -> str:
        return "approve" if "other" in asked.title else "reject"

    async with editing(program, Editor(choose)) as editor:
        session = await editor.new(program)
        assert await editor.prompt(session, "go") == "end_turn"
        assert [asked.title[:8] for asked, _ in editor.asked] == ["echo ran", "echo oth"]
        assert editor.call("echo ran")["statuses"] == ["pending", "failed"]
        assert "rejected" in editor.call("echo ran")["texts"][-1]
        assert editor.call("echo oth")["statuses"][-1] == "completed"
        assert editor.call("ls /workspace")["statuses"][-1] == "completed"
    assert log(program) == "other\n"


@pytest.mark.parametrize(("option", "asked"), [("approve_command", 2), ("approve_tool", 1)])
async def test_approved_for_the_rest_of_the_session(program: Program, option: str, asked: int) -> None:
    program.script(RUN, "One.", [RUN, OTHER], "Two.", RUN, "Three.")
    async with editing(program, Editor(lambda _: option)) as editor:
        session = await editor.new(program)
        await editor.prompt(session, "go")
        await editor.prompt(session, "again")
        assert len(editor.asked) == asked
        noted = [
            each for each in editor.calls().values() if any("Nobody was asked" in t for t in each["texts"])
        ]
        assert len(noted) == 3 - asked
    listed = json.loads(program.run("approvals", "list", session, "--json").stdout)
    assert len(listed) == asked
    assert program.run("approvals", "revoke", session, "--all").returncode == 0
    # Kept with the thread: known to the next process, and gone when it was taken back.
    async with editing(program) as editor:
        await editor.agent.load_session(cwd=str(program.folder), session_id=session, mcp_servers=[])
        await editor.prompt(session, "once more")
        assert len(editor.asked) == 1


async def test_output_is_shown_while_the_command_runs(program: Program) -> None:
    program.script(
        execute("echo first; sleep 1; printf '\\033[31m```x\\033[0m'; sleep 1; echo; exit 3"), "Done."
    )
    async with editing(program) as editor:
        session = await editor.new(program)
        turn = asyncio.create_task(editor.prompt(session, "go"))
        await editor.until(lambda: "```\nfirst\n```" in _texts(editor))
        assert not turn.done()
        await editor.until(lambda: "````\nfirst\n```x\n````" in _texts(editor))
        assert not turn.done()
        await turn
        done = editor.call("echo first")
        assert done["statuses"][-1] == "failed"
        assert done["texts"][-1].startswith("exit 3")
        # What is printed cannot close the block that it is shown in, nor steer the view.
        assert done["texts"][-2] == "````\nfirst\n```x\n````"


def _texts(editor: Editor) -> list[str]:
    return [t for each in editor.calls().values() for t in each["texts"]]


async def test_the_plan_and_files(program: Program) -> None:
    todos = [{"content": "Look", "status": "in_progress"}, {"content": "Write", "status": "pending"}]
    (program.workspace / "results").mkdir(parents=True)
    (program.workspace / "results" / "a.txt").write_text("old line\n")
    program.script(
        call("write_todos", todos=todos),
        call("read_file", file_path="/results/a.txt"),
        call("edit_file", file_path="/results/a.txt", old_string="old", new_string="new"),
        call("write_todos", todos=[{**each, "status": "completed"} for each in todos]),
        "Done.",
    )
    async with editing(program) as editor:
        session = await editor.new(program)
        assert await editor.prompt(session, "go") == "end_turn"
        plans = [[(e.content, e.status) for e in plan.entries] for plan in editor.of("plan")]
        assert plans == [
            [("Look", "in_progress"), ("Write", "pending")],
            [("Look", "completed"), ("Write", "completed")],
        ]
        where = str(program.workspace / "results" / "a.txt")
        assert [place.path for place in editor.call("read_file")["locations"]] == [where]
        edit = editor.call("edit_file /results/a.txt")
        assert [(d.path, d.old_text, d.new_text) for d in edit["diffs"]] == [(where, "old", "new")]
        [(asked, _)] = editor.asked
        assert {part.type for part in asked.content} == {"content", "diff"}
    assert (program.workspace / "results" / "a.txt").read_text() == "new line\n"


async def test_cancel_stops_the_command_and_the_session_goes_on(program: Program) -> None:
    program.script(execute("echo begun; sleep 987 & sleep 987"), "Going on.")
    async with editing(program) as editor:
        session = await editor.new(program)
        turn = asyncio.create_task(editor.prompt(session, "go"))
        await editor.until(lambda: "```\nbegun\n```" in _texts(editor))
        assert any("sleep 987" in line for line in processes_of(editor.pid))
        with pytest.raises(RequestError, match="still running"):
            await editor.prompt(session, "meanwhile")
        since = time.monotonic()
        await editor.agent.cancel(session_id=session)
        assert await turn == "cancelled"
        assert time.monotonic() - since < 5
        assert not any("sleep 987" in line for line in processes_of(editor.pid))
        assert editor.call("echo begun")["statuses"][-1] == "failed"
        assert await editor.prompt(session, "go on") == "end_turn"
        assert editor.said() == "Going on."


async def test_cancelled_at_the_question(program: Program) -> None:
    program.script(RUN, "Something else.")
    async with editing(program, Editor(lambda _: None)) as editor:
        session = await editor.new(program)
        assert await editor.prompt(session, "go") == "cancelled"
        assert editor.call("echo ran")["statuses"][-1] == "failed"
        editor.choose = lambda _: "approve"
        assert await editor.prompt(session, "something else") == "end_turn"
    assert log(program) == ""


async def test_the_editor_goes_away(program: Program) -> None:
    program.script(execute("echo begun; sleep 987"), "Done.")
    async with editing(program) as editor:
        session = await editor.new(program)
        turn = asyncio.create_task(editor.prompt(session, "go"))
        await editor.until(lambda: "```\nbegun\n```" in _texts(editor))
        assert containers_of(editor.pid)
        since = time.monotonic()
    assert time.monotonic() - since < 8  # it ends by itself, and is not killed
    with pytest.raises(ConnectionError):
        await turn
    deadline = time.monotonic() + 5
    while containers_of(editor.pid):
        assert time.monotonic() < deadline


async def test_subagents_ask_each_for_itself(program: Program) -> None:
    def conversation(when: str, *replies: Any) -> dict[str, Any]:
        turns = [{"text": r} if isinstance(r, str) else {"tool_calls": r} for r in replies]
        return {"when": when, "replies": turns}

    parts = [
        call("task", subagent_type="general-purpose", description=f"{side} part")
        for side in ("left", "right")
    ]
    script = {
        "conversations": [
            conversation("both", parts, "Both are done."),
            conversation("left part", [execute("echo left >> /results/log")], "Left is done."),
            conversation("right part", [execute("echo right >> /results/log")], "Right is done."),
        ]
    }
    (program.folder / "script.yaml").write_text(yaml.safe_dump(script))

    def choose(asked: Any) -> str:
        return "approve" if "right" in asked.title else "reject"

    async with editing(program, Editor(choose)) as editor:
        session = await editor.new(program)
        assert await editor.prompt(session, "both") == "end_turn"
        assert sorted(asked.title.split()[1] for asked, _ in editor.asked) == ["left", "right"]
        assert editor.said() == "Both are done."
        assert editor.call("echo right")["statuses"][-1] == "completed"
        assert editor.call("echo left")["statuses"][-1] == "failed"
        assert len(editor.calls()) == 4
    assert log(program) == "right\n"


async def test_what_a_prompt_may_hold(program: Program) -> None:
    program.workspace.mkdir()
    (program.workspace / "data.csv").write_text("a\n1\n")
    program.script("I see.", "I see.")
    async with editing(program) as editor:
        session = await editor.new(program)
        inside = (program.workspace / "data.csv").as_uri()
        prompt = [
            text("Look at "),
            resource_link_block("data.csv", inside),
            resource_link_block("passwd", "file:///etc/passwd"),
            resource_block(embedded_text_resource(inside, "a\n1\n")),
        ]
        assert (await editor.agent.prompt(session_id=session, prompt=prompt)).stop_reason == "end_turn"
        editor.updates.clear()
        await editor.agent.load_session(cwd=str(program.folder), session_id=session, mcp_servers=[])
        [sent] = editor.of("user_message_chunk")
        assert sent.content.text.startswith("Look at /workspace/data.csv")
        assert "/etc/passwd (not in the workspace: out of reach)" in sent.content.text
        assert "/workspace/data.csv:\n```\na\n1\n```" in sent.content.text
        for wrong, why in (([text("  ")], "empty"), ([image_block("eA==", "image/png")], "image")):
            with pytest.raises(RequestError, match=why):
                await editor.agent.prompt(session_id=session, prompt=wrong)
