"""The gate before code blocks: one question a reply, and exactly what was approved runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from code_loops import TASK, bash, looping, outputs, playing, python, said_to_the_model
from gated_agents import APPROVE, REJECT, decide, questions, say, thread
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.types import Command

from agent import code_graph
from agent.code_graph import BlockApprovals
from libs.code_blocks.state import CodeState
from libs.middleware.approvals import CheckpointerRequired

TWO = f"First.\n{bash('echo one')}\nThen.\n{python('print(2)')}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def gated(folder: Path, *replies: str, saver: Any = None, **options: Any) -> Any:
    return looping(
        folder, playing(*replies), gate=BlockApprovals(), checkpointer=saver or InMemorySaver(), **options
    )


def test_a_reply_is_one_question_with_the_code_shown(folder: Path) -> None:
    with gated(folder, TWO, "There are 2.") as graph:
        waiting = graph.invoke(say(TASK), thread())
        [question] = questions(waiting)
        assert [(r["name"], r["args"]) for r in question["action_requests"]] == [
            ("execute_code", {"language": "bash", "code": "echo one"}),
            ("execute_code", {"language": "python", "code": "print(2)"}),
        ]
        assert "print(2)" in question["action_requests"][1]["description"]
        assert (
            question["review_configs"]
            == [{"action_name": "execute_code", "allowed_decisions": ["approve", "reject"]}] * 2
        )
        assert (waiting["executions"], waiting["status"]) == ([], None)
        result = graph.invoke(decide(APPROVE, APPROVE), thread())
        assert (result["status"], outputs(result)) == ("completed", ["one", "2"])
        again = graph.invoke(decide(APPROVE, APPROVE), thread())
        assert outputs(again) == ["one", "2"], "nothing runs twice"


def test_a_rejection_runs_nothing_and_the_model_reads_the_reason(folder: Path) -> None:
    with gated(folder, bash("rm -r x"), "I leave it.") as graph:
        graph.invoke(say(TASK), thread())
        result = graph.invoke(decide(REJECT), thread())
    assert (result["status"], result["executions"]) == ("completed", [])
    assert said_to_the_model(result) == ["The bash block was not run. A person refused it: not now"]
    assert result["messages"][-1].text == "I leave it."


def test_mixed_decisions(folder: Path) -> None:
    reply = "\n".join([bash("echo one"), bash("echo two"), bash("echo three")])
    with gated(folder, reply, "Done.") as graph:
        graph.invoke(say(TASK), thread())
        result = graph.invoke(decide(APPROVE, REJECT, APPROVE), thread())
    assert outputs(result) == ["one", "three"]
    assert "Block 2 (bash) was not run. A person refused it: not now" in said_to_the_model(result)[0]


def test_where_the_setting_lists_it_a_persons_change_runs(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(code_graph, "INTERRUPT_ON", {"execute_code": ("approve", "reject", "edit")})
    changed = {"name": "execute_code", "args": {"language": "python", "code": "print('two')"}}
    unknown = {**changed, "args": {**changed["args"], "language": "perl"}}
    with gated(folder, bash("echo one"), "Done.") as graph:
        graph.invoke(say(TASK), thread())
        [again] = questions(graph.invoke(decide({"type": "edit", "edited_action": unknown}), thread()))
        assert "language" in again["error"]
        result = graph.invoke(decide({"type": "edit", "edited_action": changed}), thread())
    assert [(e["language"], e["output"]) for e in result["executions"]] == [("python", "two\n")]
    said = said_to_the_model(result)[0]
    assert said.startswith(
        "The python block was changed by a person before it ran. What ran is this:\n```python\n"
    )
    assert "print('two')\n```\n\nThe python block succeeded" in said


def test_a_failure_stops_approved_blocks_too(folder: Path) -> None:
    with gated(folder, f"{bash('exit 1')}\n{bash('echo never')}", bash("echo mended"), "Done.") as graph:
        graph.invoke(say(TASK), thread())
        waiting = graph.invoke(decide(APPROVE, APPROVE), thread())
        assert [r["args"]["code"] for r in questions(waiting)[0]["action_requests"]] == ["echo mended"]
        result = graph.invoke(decide(APPROVE), thread())
    assert outputs(result) == ["", "mended"]


WRONG = [
    None,
    "yes",
    {},
    {"decisions": []},
    {"decisions": [APPROVE]},
    {"decisions": [APPROVE, {"type": "edit"}]},
]


def test_wrong_answers_are_asked_again_with_the_reason(folder: Path) -> None:
    with gated(folder, TWO, "Done.") as graph:
        [first] = questions(graph.invoke(say(TASK), thread()))
        for wrong in WRONG:
            [again] = questions(graph.invoke(Command(resume=wrong), thread()))
            assert {**again, "error": ""} == {**first, "error": ""}
        assert again["error"]
        result = graph.invoke(decide(APPROVE, APPROVE), thread())
    assert outputs(result) == ["one", "2"]


async def test_the_answer_may_come_after_a_restart(folder: Path) -> None:
    replies = (bash("echo one"), bash("echo two"), "Done.")
    async with AsyncSqliteSaver.from_conn_string(str(folder / "threads.db")) as saver:
        with gated(folder, *replies, saver=saver) as graph:
            [first] = questions(await graph.ainvoke(say(TASK), thread()))
        with gated(folder, *replies, saver=saver) as graph:
            waiting = await graph.ainvoke(decide(APPROVE), thread())
            assert outputs(waiting) == ["one"]
            assert questions(waiting) != [first]
        with gated(folder, *replies, saver=saver) as graph:
            result = await graph.ainvoke(decide(APPROVE), thread())
    assert (result["status"], outputs(result)) == ("completed", ["one", "two"])


def test_what_was_approved_runs_although_the_message_changed(folder: Path) -> None:
    with gated(folder, bash("echo shown"), "Done.") as graph:
        graph.invoke(say(TASK), thread())
        for step in graph.stream(
            decide(APPROVE), thread(), stream_mode="updates", interrupt_after=["approve"]
        ):
            assert "run" not in step
        state: CodeState = graph.get_state(thread()).values
        reply = state["messages"][-1]
        changed = reply.model_copy(update={"content": bash("echo other")})
        graph.update_state(thread(), {"messages": [changed]}, as_node="approve")
        result = graph.invoke(None, thread())
    assert outputs(result) == ["shown"]


def test_a_new_message_drops_what_waits(folder: Path) -> None:
    with gated(folder, bash("echo one"), "As you like.", "As you like.") as graph:
        graph.invoke(say(TASK), thread())
        result = graph.invoke(say("Never mind."), thread())
    assert (result["status"], result["executions"]) == ("completed", [])


def test_without_a_checkpointer_the_model_is_not_even_asked(folder: Path) -> None:
    model = playing(bash("echo one"))
    with looping(folder, model, gate=BlockApprovals()) as graph, pytest.raises(CheckpointerRequired):
        graph.invoke(say(TASK))
    assert model._requests == []


@pytest.fixture
def hidden(folder: Path) -> Iterator[Any]:
    with gated(folder, bash("echo a\u202eb\x07"), "Done.") as graph:
        yield graph


def test_what_cannot_be_seen_is_shown(hidden: Any) -> None:
    [question] = questions(hidden.invoke(say(TASK), thread()))
    assert "‹U+202E›" in question["action_requests"][0]["description"]
    assert "‹U+0007›" in question["action_requests"][0]["description"]
