"""The form of `INTERRUPT_ON`: LangChain's `interrupt_on`, for both gates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from agent.config import INTERRUPT_ON
from libs.middleware.approvals.approval_middleware import ApprovalMiddleware
from libs.middleware.approvals.gate_rules import GateRules
from tests.support.code_loops import TASK, bash, looping, outputs, playing
from tests.support.gated_agents import agent, decide, questions, ran, run, say, scripted, thread

ASKED = {"allowed_decisions": ["approve", "reject"]}


def about_blocks(folder: Path, execute_code: Any) -> tuple[list[Any], list[str]]:
    """Return the questions of the code-block agent about the block `echo one`, and its output."""
    rules = {"execute_code": execute_code}
    with looping(
        folder, playing(bash("echo one"), "Ok."), checkpointer=InMemorySaver(), approvals=rules
    ) as graph:
        result = graph.invoke(say(TASK), thread())
    return questions(result), outputs(result)


def about_calls(folder: Path, execute: Any) -> tuple[list[Any], list[str]]:
    """Return the questions of the deep agent about the call `echo one`, and the calls that ran."""
    graph = agent(
        folder,
        scripted({"go": [[run("one")], "done"]}),
        checkpointer=InMemorySaver(),
        middleware=[ApprovalMiddleware({"execute": execute})],
    )
    return questions(graph.invoke(say("go"), thread())), ran(folder)


GATES = pytest.mark.parametrize("about", [about_calls, about_blocks])


def test_every_gated_call_offers_approve_and_reject() -> None:
    assert dict.fromkeys(("execute", "edit_file", "delete", "execute_code"), ASKED) == INTERRUPT_ON


@GATES
def test_true_offers_every_decision(tmp_path: Path, about: Any) -> None:
    [question], done = about(tmp_path, True)
    assert question["review_configs"][0]["allowed_decisions"] == ["approve", "edit", "reject"]
    assert done == []


@GATES
def test_false_asks_nobody(tmp_path: Path, about: Any) -> None:
    assert about(tmp_path, False) == ([], ["one"])


@GATES
def test_description_stands_above_the_whole_call(tmp_path: Path, about: Any) -> None:
    def look(call: Any, state: Any, runtime: Any) -> str:
        assert state["messages"]
        assert runtime.stream_writer
        return f"Look at {call['name']} closely."

    for folder, description in (("text", "Look closely."), ("function", look)):
        (tmp_path / folder).mkdir()
        [question], _ = about(tmp_path / folder, {**ASKED, "description": description})
        shown = question["action_requests"][0]["description"]
        assert shown.startswith("Look")
        assert "echo one" in shown


@GATES
def test_when_decides_which_calls_are_asked_about(tmp_path: Path, about: Any) -> None:
    for folder, word in (("asked", "one"), ("free", "two")):
        (tmp_path / folder).mkdir()
        when = lambda request, word=word: word in str(request.tool_call["args"])  # noqa: E731
        asked, done = about(tmp_path / folder, {**ASKED, "when": when})
        assert (len(asked), done) == ((1, []) if folder == "asked" else (0, ["one"]))


def test_call_that_needs_no_approval_waits_for_the_other_calls(tmp_path: Path) -> None:
    gate = ApprovalMiddleware(
        {"execute": {**ASKED, "when": lambda call: "two" in str(call.tool_call["args"])}}
    )
    graph = agent(
        tmp_path,
        scripted({"go": [[run("one"), run("two")], "done"]}),
        checkpointer=InMemorySaver(),
        middleware=[gate],
    )
    graph.invoke(say("go"), thread())
    assert ran(tmp_path) == []
    graph.invoke(decide({"type": "reject"}), thread())
    assert ran(tmp_path) == ["one"]


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (("approve", "reject"), r"is \('approve', 'reject'\)"),
        (None, "is None"),
        ({}, "is {}"),
        ({"allowed_decisions": "approve"}, "is {"),
        ({**ASKED, "decisions": []}, "has the unknown key 'decisions'"),
        ({"allowed_decisions": []}, "does not offer both approve and reject"),
        ({"allowed_decisions": ["approve"]}, "does not offer both approve and reject"),
        ({"allowed_decisions": ["approve", "reject", "respond"]}, "offers 'respond'"),
    ],
)
def test_error_about_a_wrong_form_shows_the_right_form(given: Any, problem: str) -> None:
    right = 'write {"allowed_decisions": ["approve", "reject"]}'
    for gate in (
        GateRules,
        ApprovalMiddleware,
        lambda rules: looping(Path(), playing(), approvals=rules).__enter__(),
    ):
        with pytest.raises(ValueError, match=rf"interrupt_on\['execute'\] {problem}") as wrong:
            gate({"execute": given})
        assert right in str(wrong.value)


def test_names_and_modes_are_checked() -> None:
    with pytest.raises(TypeError, match=r"interrupt_on is \['execute'\]: write {name: "):
        GateRules(["execute"])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="write 'batched' or 'per_call'"):
        ApprovalMiddleware({}, interrupt_mode="one")  # type: ignore[arg-type]
