"""What an editor is shown of calls: titles, places, blocks that nothing can break out of."""

from __future__ import annotations

from typing import Any

import pytest

from agent.acp.tool_calls import fenced, host_path, plan_of, proposed, title_of
from agent.acp.updates import Updates
from agent.events import CommandEnded, CommandStarted, Execution, Message, Output, ToolEnded, ToolStarted
from libs.middleware.decisions import Request

ON_HOST = host_path("/home/me/workspace")


@pytest.mark.parametrize(
    ("inside", "outside"),
    [
        ("/workspace", "/home/me/workspace"),
        ("/workspace/a.txt", "/home/me/workspace/a.txt"),
        ("/data/x y.csv", "/home/me/workspace/data/x y.csv"),
        ("/workspace/results/p.png", "/home/me/workspace/results/p.png"),
        ("/datasets/x", None),
        ("/workspaces/x", None),
        ("/data/../../etc/passwd", None),
        ("/etc/passwd", None),
        ("data/x", None),
    ],
)
def test_paths_of_the_sandbox_on_the_host(inside: str, outside: str | None) -> None:
    assert ON_HOST(inside) == outside


def test_a_title_is_one_line_in_which_everything_can_be_seen() -> None:
    assert title_of("execute", {"command": "ls\nrm x\nrm y"}) == "ls … (3 lines)"
    assert title_of("execute", {"command": "a\u202eb"}) == "a‹U+202E›b"
    assert len(title_of("execute", {"command": "x" * 5_000})) < 150
    assert title_of("read_file", {"file_path": "/data/x"}) == "read_file /data/x"
    assert title_of("anything", {}) == "anything"


@pytest.mark.parametrize("text", ["plain", "```\n# out", "````", "a\n`````\nb", "", "\x1b[2Jx"])
def test_a_block_cannot_be_left_from_inside(text: str) -> None:
    first, *inside, last = fenced(text).split("\n")
    assert first == last
    assert set(first) == {"`"} and len(first) >= 3
    assert first not in inside
    assert "\x1b" not in fenced(text)


def test_a_request_shows_the_whole_description_and_the_difference() -> None:
    args = {"file_path": "/data/a", "old_string": "old", "new_string": ""}
    request = Request("edit_file", args, "1")
    whole, change = proposed("edit_file", args, ON_HOST, request.description)
    assert request.description in whole.content.text  # type: ignore[union-attr]
    assert (change.path, change.old_text, change.new_text) == ("/home/me/workspace/data/a", "old", "")  # type: ignore[union-attr]


@pytest.mark.parametrize("todos", [None, "x", [1], [{"content": 5}], [{"status": "pending"}]])
def test_a_list_that_is_none_is_an_empty_plan(todos: object) -> None:
    assert plan_of({"todos": todos}) == []


def test_an_unknown_status_of_a_step_is_pending() -> None:
    [entry] = plan_of({"todos": [{"content": "x", "status": "someday"}]})
    assert entry.status == "pending"


def call(call_id: str | None, **args: Any) -> dict[str, Any]:
    return {"id": call_id, "name": "execute", "args": args}


def test_calls_are_found_by_what_a_person_is_asked_even_without_ids_of_their_own() -> None:
    updates = Updates(ON_HOST)
    calls = [call("a", command="1"), call("a", command="2"), call(None, command="3")]
    started = list(updates.of(Message("m", "", calls, subagent=False)))
    assert [update.tool_call_id for update in started] == ["a", "m-1", "m-2"]  # type: ignore[union-attr]
    for each, call_id in zip(calls, ("a", "m-1", "m-2"), strict=True):
        request = Request("execute", each["args"], call_id)
        assert updates.call_id({"name": "execute", "args": each["args"], "digest": request.digest}) == call_id
        assert list(updates.asked(call_id, "execute", each["args"])) == []


def test_blocks_are_found_too_and_told_of_before_the_question() -> None:
    updates = Updates(ON_HOST)
    list(updates.of(Message("m", "I look.", [], subagent=False)))
    args = {"language": "python", "code": "1"}
    request = Request("execute_code", args, "m/3")
    assert updates.call_id({"name": "execute_code", "args": args, "digest": request.digest}) == "m/3"
    [told] = updates.asked("m/3", "execute_code", args)
    assert (told.session_update, told.tool_call_id, told.status) == ("tool_call", "m/3", "pending")  # type: ignore[union-attr]
    [begun] = updates.of(CommandStarted("m/3", "python", "1", subagent=False))
    assert (begun.session_update, begun.status) == ("tool_call_update", "in_progress")


def test_what_a_command_prints_is_shown_now_and_then_and_its_last_part_alone() -> None:
    updates = Updates(ON_HOST)
    list(updates.of(CommandStarted("a", "bash", "yes", subagent=False)))
    [first] = updates.of(Output("a", "first\n"))
    assert "first" in first.content[0].content.text  # type: ignore[union-attr, index]
    assert list(updates.of(Output("a", "x" * 100_000))) == []
    assert updates.due() is None
    updates._calls["a"].shown_at -= 1
    shown = updates.due()
    assert shown is not None
    assert len(shown.content[0].content.text) < 9_000  # type: ignore[union-attr, index]
    assert updates.due() is None
    [ended] = updates.of(CommandEnded("a", Execution("bash", "yes", "y", None, 1.0)))
    assert ended.status == "failed"  # type: ignore[union-attr]
    assert updates.close_all("gone") == []


def test_what_has_not_ended_is_closed() -> None:
    updates = Updates(ON_HOST)
    list(updates.of(Message("m", "", [call("a", command="1"), call("b", command="2")], subagent=True)))
    list(updates.of(ToolStarted("c", "ls", {}, subagent=False)))
    list(updates.of(ToolEnded("c", "ls", None)))
    closed = updates.close_all("gone")
    assert [(update.tool_call_id, update.status) for update in closed] == [("a", "failed"), ("b", "failed")]  # type: ignore[union-attr]
    assert updates.close_all("gone") == []


def test_words_of_subagents_are_left_out_and_none_of_the_others_is_said_twice() -> None:
    updates = Updates(ON_HOST)
    assert list(updates.of(Message("s", "inside", [], subagent=True))) == []
    [whole] = updates.of(Message("m", "all of it", [], subagent=False))
    assert whole.content.text == "all of it"  # type: ignore[union-attr]
