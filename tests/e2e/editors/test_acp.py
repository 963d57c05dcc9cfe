"""`code-agent acp` with an editor: turns, approvals, live output, plan, cancellation."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest
from acp import RequestError, embedded_text_resource, image_block, resource_block, resource_link_block
from acp import text_block as text

from tests.clients.acp_editor import Editor, editing
from tests.clients.cli_program import Program, call, containers_of, execute, processes_of

pytestmark = pytest.mark.docker

RUN, OTHER = execute("echo ran >> /results/log; cat /results/log"), execute("echo other >> /results/log")


async def test_approved_call_runs(program: Program) -> None:
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
        assert RUN["args"]["command"] in asked.content[0].content.text
        assert asked.raw_input == RUN["args"]
        done = editor.calls()[asked.tool_call_id]
        assert done["statuses"] == ["pending", "in_progress", "completed"]
        assert done["kind"] == "execute"
        assert any("ran" in part for part in done["texts"])
        assert "exit 0" in done["texts"][-1]
        assert len(editor.of("agent_message_chunk")) > 1
        assert editor.said() == "It is done, in quite a few words."
        assert len({chunk.message_id for chunk in editor.of("agent_message_chunk")}) == 1
    assert program.log == "ran\n"


@pytest.mark.thorough
async def test_absent_paths_of_the_task_are_named(program: Program) -> None:
    program.script("There is none.")
    async with editing(program) as editor:
        session = await editor.new(program)
        assert await editor.prompt(session, "Which columns has /data/people.csv?") == "end_turn"
        assert editor.said() == "There is none.\n\n/data/people.csv is not there."


@pytest.mark.thorough
@pytest.mark.parametrize("mode", ["batched", "per_call"])
async def test_each_call_has_a_request_of_its_own(program: Program, mode: str) -> None:
    program.environment["INTERRUPT_MODE"] = mode
    program.script([RUN, call("ls", path="/workspace"), OTHER], "As you wish.")

    def choose(asked: Any) -> str:
        return "approve" if "other" in asked.title else "reject"

    async with editing(program, Editor(choose)) as editor:
        session = await editor.new(program)
        assert await editor.prompt(session, "go") == "end_turn"
        assert editor.call("echo ran")["statuses"] == ["pending", "failed"]
        assert "rejected" in editor.call("echo ran")["texts"][-1]
        assert editor.call("echo oth")["statuses"][-1] == "completed"
    assert program.log == "other\n"


@pytest.mark.thorough
@pytest.mark.parametrize(("option", "asked"), [("approve_command", 2), ("approve_tool", 1)])
async def test_approved_for_the_rest_of_the_session(program: Program, option: str, asked: int) -> None:
    program.script(RUN, [RUN, OTHER], "Done.")
    async with editing(program, Editor(lambda _: option)) as editor:
        session = await editor.new(program)
        await editor.prompt(session, "go")
        assert len(editor.asked) == asked
        noted = [
            each for each in editor.calls().values() if any("Nobody was asked" in t for t in each["texts"])
        ]
        assert len(noted) == 3 - asked
    assert len(json.loads(program.run("approvals", "list", session, "--json").stdout)) == asked


@pytest.mark.thorough
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
        # Output can neither close its code block nor send control characters.
        assert done["texts"][-2] == "````\nfirst\n```x\n````"


def _texts(editor: Editor) -> list[str]:
    return [t for each in editor.calls().values() for t in each["texts"]]


@pytest.mark.thorough
async def test_plan_and_files_are_shown(program: Program) -> None:
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


@pytest.mark.thorough
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
        while any("sleep 987" in line for line in processes_of(editor.pid)):  # killed, but not removed yet
            assert time.monotonic() - since < 5
            await asyncio.sleep(0.05)
        assert editor.call("echo begun")["statuses"][-1] == "failed"
        assert await editor.prompt(session, "go on") == "end_turn"
        assert editor.said() == "Going on."


@pytest.mark.thorough
async def test_cancelled_request_runs_nothing(program: Program) -> None:
    program.script(RUN, "Something else.")
    async with editing(program, Editor(lambda _: None)) as editor:
        session = await editor.new(program)
        assert await editor.prompt(session, "go") == "cancelled"
        assert editor.call("echo ran")["statuses"][-1] == "failed"
        editor.choose = lambda _: "approve"
        assert await editor.prompt(session, "something else") == "end_turn"
    assert program.log == ""


@pytest.mark.thorough
async def test_end_of_the_editor_ends_the_agent(program: Program) -> None:
    program.script(execute("echo begun; sleep 987"), "Done.")
    async with editing(program) as editor:
        session = await editor.new(program)
        turn = asyncio.create_task(editor.prompt(session, "go"))
        await editor.until(lambda: "```\nbegun\n```" in _texts(editor))
        assert containers_of(editor.pid)
        since = time.monotonic()
    assert time.monotonic() - since < 8  # the agent ended by itself
    with pytest.raises(ConnectionError):
        await turn
    deadline = time.monotonic() + 5
    while containers_of(editor.pid):
        assert time.monotonic() < deadline


@pytest.mark.thorough
async def test_each_subagent_has_requests_of_its_own(program: Program) -> None:
    parts = [
        call("task", subagent_type="general-purpose", description=f"{side} part")
        for side in ("left", "right")
    ]
    program.conversations(
        both=[parts, "Both are done."],
        left_part=[[execute("echo left >> /results/log")], "Left is done."],
        right_part=[[execute("echo right >> /results/log")], "Right is done."],
    )

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
    assert program.log == "right\n"


@pytest.mark.thorough
async def test_prompt_takes_text_links_and_resources(program: Program) -> None:
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
