"""`INTERRUPT_MODE=per_call`: an interrupt for each call, in LangChain's shape."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from langchain.agents.middleware.human_in_the_loop import ToolApprovalRequest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from libs.middleware.approvals.addressed_answers import NothingWaits
from libs.models.scripted_model import ToolUse
from tests.support.code_loops import TASK, bash, looping, outputs, playing, python
from tests.support.gated_agents import (
    APPROVE,
    COMMAND,
    REJECT,
    after_restart,
    agent,
    assert_answered_once,
    decide,
    questions,
    ran,
    run,
    say,
    scripted,
    task,
    thread,
    waiting,
)

THREE = [run("one"), run("two"), run("three")]


def asking(folder: Path, *turns: Any, mode: Any = "per_call") -> tuple[Any, dict[str, Any]]:
    """Return an agent and the result of its first turn."""
    script = scripted({"go": [*turns, "done"]})
    graph = agent(folder, script, checkpointer=InMemorySaver(), interrupt_mode=mode)
    return graph, graph.invoke(say("go"), thread())


def test_each_call_is_answered_by_its_id(tmp_path: Path) -> None:
    """Follows LangChain's documentation of the mode."""
    graph, asked = asking(tmp_path, [*THREE[:2], ToolUse(name="ls", args={"path": str(tmp_path)})])
    answers: dict[str, Any] = {}
    for interrupt in asked["__interrupt__"]:
        value = interrupt.value
        assert value.keys() >= ToolApprovalRequest.__required_keys__
        assert (value["type"], value["name"]) == ("tool_approval", "execute")
        answers[interrupt.id] = REJECT if value["args"]["command"].startswith("echo two") else APPROVE
    calls = [value["tool_call_id"] for value in questions(asked)]
    assert calls == [call["id"] for call in asked["messages"][-1].tool_calls[:2]]
    assert [each.id for each in graph.get_state(thread()).interrupts] == list(answers)
    result = graph.invoke(Command(resume=answers), thread())
    assert ran(tmp_path) == ["one"]
    assert result["messages"][-1].text == "done"
    assert_answered_once(result["messages"])
    with pytest.raises(NothingWaits):
        graph.invoke(Command(resume=answers), thread())
    assert ran(tmp_path) == ["one"]


def test_calls_run_when_all_are_decided(tmp_path: Path) -> None:
    graph, asked = asking(tmp_path, THREE)
    ids = waiting(asked)
    asked = graph.invoke(Command(resume={ids["two"]: APPROVE}), thread())
    assert waiting(asked) == {word: ids[word] for word in ("one", "three")}, "the ids stay"
    graph.invoke(Command(resume={ids["two"]: REJECT}), thread())  # sent again, by a second client
    asked = graph.invoke(Command(resume={ids["one"]: REJECT}), thread())
    assert (waiting(asked), ran(tmp_path)) == ({"three": ids["three"]}, [])
    result = graph.invoke(decide(APPROVE), thread())
    assert sorted(ran(tmp_path)) == ["three", "two"]
    assert_answered_once(result["messages"])


@pytest.mark.parametrize("first", ["one", "two", "three"])
@pytest.mark.parametrize("answer", [APPROVE, {"decisions": [APPROVE]}])
def test_other_questions_stay_as_they_were(tmp_path: Path, first: str, answer: Any) -> None:
    graph, asked = asking(tmp_path, THREE)
    ids = waiting(asked)
    asked = graph.invoke(Command(resume={ids.pop(first): answer}), thread())
    assert waiting(asked) == ids
    assert not any("error" in question for question in questions(asked))


@pytest.mark.parametrize("mode", ["batched", "per_call"])
def test_batched_answer_decides_all_calls_in_order(tmp_path: Path, mode: str) -> None:
    graph, _ = asking(tmp_path, THREE, mode=mode)
    result = graph.invoke(decide(APPROVE, REJECT, APPROVE), thread())
    assert sorted(ran(tmp_path)) == ["one", "three"]
    assert_answered_once(result["messages"])


@pytest.mark.parametrize("mode", ["batched", "per_call"])
def test_question_about_one_call_has_both_shapes(tmp_path: Path, mode: str) -> None:
    graph, asked = asking(tmp_path, [run("one")], [run("two")], [run("three")], mode=mode)
    for answer in (APPROVE, {"decisions": [APPROVE]}):
        [interrupt] = asked["__interrupt__"]
        [request], value = interrupt.value["action_requests"], interrupt.value
        assert [request[key] for key in ("id", "name", "args")] == [
            value[key] for key in ("tool_call_id", "name", "args")
        ]
        asked = graph.invoke(Command(resume={interrupt.id: answer}), thread())
    graph.invoke(Command(resume=APPROVE), thread())
    assert ran(tmp_path) == ["one", "two", "three"]


@pytest.mark.parametrize("wrong", [None, "yes", {}, [APPROVE], {"type": "respond"}, {"decisions": []}])
def test_wrong_answer_holds_the_others_and_is_asked_again(tmp_path: Path, wrong: Any) -> None:
    graph, asked = asking(tmp_path, THREE)
    ids = waiting(asked)
    asked = graph.invoke(
        Command(resume={ids["one"]: APPROVE, ids["two"]: wrong, ids["three"]: REJECT}), thread()
    )
    [again] = questions(asked)
    assert waiting(asked) == {"two": ids["two"]}
    assert '{"decisions": [{"type": "approve"}]}' in again["error"]
    assert ran(tmp_path) == []
    graph.invoke(Command(resume={ids["two"]: APPROVE}), thread())
    assert sorted(ran(tmp_path)) == ["one", "two"]


def test_wrong_number_of_answers_asks_again(tmp_path: Path) -> None:
    graph, asked = asking(tmp_path, THREE)
    ids = waiting(asked)
    for wrong in (decide(APPROVE), decide(*[APPROVE] * 4), Command(resume=APPROVE)):
        asked = graph.invoke(wrong, thread())
        assert waiting(asked) == ids
        assert all(
            "while 3 questions waited. Answer each under the id of its interrupt" in value["error"]
            for value in questions(asked)
        )
    assert ran(tmp_path) == []
    graph.invoke(Command(resume=dict.fromkeys(ids.values(), APPROVE)), thread())
    assert sorted(ran(tmp_path)) == ["one", "three", "two"]


async def test_parallel_subagents_wait_across_restarts(tmp_path: Path) -> None:
    model = scripted(
        {
            "left": [[run("left1"), run("left2")], "ok"],
            "right": [[run("right1"), run("right2")], "ok"],
            "go": [[task("left"), task("right")], "done"],
        }
    )

    async def step(given: Any) -> dict[str, Any]:
        return await after_restart(tmp_path, model, given, interrupt_mode="per_call")

    ids = waiting(await step(say("go")))
    assert len(ids) == len(set(ids.values())) == 4
    rest = waiting(await step(Command(resume={ids["left2"]: REJECT, ids["right1"]: APPROVE})))
    assert rest == {word: ids[word] for word in ("left1", "right2")}
    assert waiting(await step(None)) == rest
    rest = waiting(await step(Command(resume={ids["right2"]: {"decisions": [APPROVE]}})))
    assert (rest, sorted(ran(tmp_path))) == ({"left1": ids["left1"]}, ["right1", "right2"])
    result = await step(Command(resume={ids["left1"]: APPROVE}))
    assert sorted(ran(tmp_path)) == ["left1", "right1", "right2"]
    assert result["messages"][-1].text == "done"
    assert_answered_once(result["messages"])


@pytest.mark.parametrize("modes", [("batched", "per_call"), ("per_call", "batched")])
def test_question_of_the_other_mode_is_answered_after_a_restart(tmp_path: Path, modes: Any) -> None:
    script, saver = scripted({"go": [THREE, "done"]}), InMemorySaver()
    before, after = (agent(tmp_path, script, checkpointer=saver, interrupt_mode=mode) for mode in modes)
    for name, partly in (("1", None), ("2", REJECT)):
        (tmp_path / "ran.txt").unlink(missing_ok=True)
        asked = before.invoke(say("go"), thread(name))
        answers = [APPROVE, REJECT, APPROVE]
        if partly and modes[0] == "per_call":
            before.invoke(Command(resume={waiting(asked)["two"]: partly}), thread(name))
            answers = [APPROVE, APPROVE]
        result = after.invoke(decide(*answers), thread(name))
        assert not questions(result)
        assert sorted(ran(tmp_path)) == ["one", "three"]
        assert_answered_once(result["messages"])


def test_repeated_run_does_not_answer_its_own_questions(tmp_path: Path) -> None:
    graph, asked = asking(tmp_path, THREE[:2], [run("four"), run("five")])
    ids = waiting(asked)
    for answer in (decide(APPROVE, REJECT), Command(resume={ids["one"]: APPROVE, ids["two"]: REJECT})):
        for _ in range(2):  # a server repeats a killed run with its input
            served: Any = {"configurable": {"thread_id": "1", "run_id": "run-1"}}
            assert waiting(graph.invoke(answer, served)).keys() == {"four", "five"}
    assert ran(tmp_path) == ["one"]


def test_grant_covers_later_calls_and_no_waiting_call(tmp_path: Path) -> None:
    graph, asked = asking(tmp_path, [run("one"), run("two")], [run("two"), run("three")])
    ids = waiting(asked)
    asked = graph.invoke(Command(resume={ids["two"]: COMMAND}), thread())
    assert waiting(asked) == {"one": ids["one"]}
    asked = graph.invoke(Command(resume=REJECT), thread())
    assert (waiting(asked).keys(), ran(tmp_path)) == ({"three"}, ["two"])
    graph.invoke(Command(resume=REJECT), thread())
    assert ran(tmp_path) == ["two", "two"]


def test_response_schema_accepts_valid_decisions_only(tmp_path: Path) -> None:
    edit = {"type": "edit", "edited_action": {"name": "edit_file", "args": {"file_path": "/a"}}}
    call = ToolUse(name="edit_file", args={"file_path": "/a"})
    _, asked = asking(tmp_path, [run("one"), call])
    command, file = (Draft202012Validator(each.response_schema) for each in asked["__interrupt__"])
    for decision in (APPROVE, REJECT, COMMAND):
        assert command.is_valid(decision)
        assert file.is_valid(decision)
    assert file.is_valid(edit)
    for refused in (edit, {"type": "respond", "message": "x"}, {}, "approve"):
        assert not command.is_valid(refused)


def test_blocks_of_a_reply_are_asked_about_one_by_one(tmp_path: Path) -> None:
    reply = f"{bash('echo one')}\n{python('print(2)')}\n{bash('echo three')}"
    with looping(
        tmp_path,
        playing(reply, "Done."),
        checkpointer=InMemorySaver(),
        approvals={"execute_code": {"allowed_decisions": ["approve", "reject"]}},
        interrupt_mode="per_call",
    ) as graph:
        first, second, third = graph.invoke(say(TASK), thread())["__interrupt__"]
        assert second.value["args"] == {"language": "python", "code": "print(2)"}
        asked = graph.invoke(Command(resume={third.id: APPROVE, second.id: REJECT}), thread())
        assert outputs(asked) == []
        assert [each.id for each in asked["__interrupt__"]] == [first.id]
        result = graph.invoke(Command(resume={first.id: APPROVE}), thread())
    assert (result["status"], outputs(result)) == ("completed", ["one", "three"])
