"""Approvals in the code-block agent: one question a reply, only approved code runs, and grants."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from agent.config import INTERRUPT_ON
from libs.code_blocks.block_state import CodeState
from libs.middleware.approvals import DecisionLog, RulesFile
from libs.middleware.approvals.addressed_answers import NothingWaits
from libs.middleware.approvals.approval_gate import CheckpointerRequired
from libs.middleware.approvals.grants import standing
from tests.support.code_loops import TASK, bash, looping, outputs, playing, python, said_to_the_model
from tests.support.gated_agents import APPROVE, COMMAND, REJECT, TOOL, decide, questions, say, thread
from tests.support.sandboxes import NEW_SANDBOX

ONE = bash("echo one")
TWO_BLOCKS = f"First.\n{bash('echo one')}\nThen.\n{python('print(2)')}"


def gated(folder: Path, *replies: str, saver: Any = None, **options: Any) -> Any:
    options = {"approvals": INTERRUPT_ON, **options}
    return looping(folder, playing(*replies), checkpointer=saver or InMemorySaver(), **options)


def asked(result: dict[str, Any]) -> list[str]:
    """Return the code of the blocks that wait for approval."""
    [question] = questions(result)
    return [request["args"]["code"] for request in question["action_requests"]]


def test_one_interrupt_asks_for_all_blocks_of_a_reply(tmp_path: Path) -> None:
    with gated(tmp_path, TWO_BLOCKS, "There are 2.") as graph:
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
        with pytest.raises(NothingWaits):
            graph.invoke(decide(APPROVE, APPROVE), thread())
        assert outputs(graph.get_state(thread()).values) == ["one", "2"], "nothing runs twice"


def test_edited_block_runs_where_edits_are_offered(tmp_path: Path) -> None:
    offered = {"execute_code": True}
    changed = {"name": "execute_code", "args": {"language": "python", "code": "print('two')"}}
    unknown = {**changed, "args": {**changed["args"], "language": "perl"}}
    with gated(tmp_path, bash("echo one"), "Done.", approvals=offered) as graph:
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


def test_model_is_not_told_that_it_repeats_what_a_person_has_written(tmp_path: Path) -> None:
    offered = {"execute_code": True}
    edited = {"name": "execute_code", "args": {"language": "bash", "code": "echo one"}}
    with gated(tmp_path, bash("echo one"), bash("echo two"), "Done.", approvals=offered) as graph:
        graph.invoke(say(TASK), thread())
        graph.invoke(decide(APPROVE), thread())
        result = graph.invoke(decide({"type": "edit", "edited_action": edited}), thread())
    assert outputs(result) == ["one", "one"]
    assert "exactly this code" not in said_to_the_model(result)[-1]


async def test_approval_works_after_a_restart(tmp_path: Path) -> None:
    replies = (bash("echo one"), bash("echo two"), "Done.")
    async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "threads.db")) as saver:
        with gated(tmp_path, *replies, saver=saver) as graph:
            [first] = questions(await graph.ainvoke(say(TASK), thread()))
        with gated(tmp_path, *replies, saver=saver) as graph:
            waiting = await graph.ainvoke(decide(APPROVE), thread())
            assert outputs(waiting) == ["one"]
            assert questions(waiting) != [first]
        with gated(tmp_path, *replies, saver=saver) as graph:
            result = await graph.ainvoke(decide(APPROVE), thread())
    assert (result["status"], outputs(result)) == ("completed", ["one", f"{NEW_SANDBOX}two"])


def test_approved_code_runs_even_if_the_message_is_changed(tmp_path: Path) -> None:
    with gated(tmp_path, bash("echo shown"), "Done.") as graph:
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


def test_new_message_drops_waiting_blocks(tmp_path: Path) -> None:
    with gated(tmp_path, bash("echo one"), "As you like.", "As you like.") as graph:
        graph.invoke(say(TASK), thread())
        result = graph.invoke(say("Never mind."), thread())
    assert (result["status"], result["executions"]) == ("completed", [])


def test_run_without_checkpointer_fails_before_the_model_call(tmp_path: Path) -> None:
    model = playing(bash("echo one"))
    with looping(tmp_path, model, approvals=INTERRUPT_ON) as graph, pytest.raises(CheckpointerRequired):
        graph.invoke(say(TASK))
    assert model._requests == []


def test_command_grant_covers_the_same_code_and_language_only(tmp_path: Path) -> None:
    with gated(tmp_path, ONE, ONE, f"{bash('echo one ')}\n{python('echo one')}", "Done.") as graph:
        graph.invoke(say(TASK), thread())
        result = graph.invoke(decide(COMMAND), thread())
        assert (outputs(result), asked(result)) == (["one", "one"], ["echo one ", "echo one"])
        granted = [
            s.values["blocks"][0].get("granted") for s in graph.get_state_history(thread()) if "run" in s.next
        ]
        assert granted == ["command", None]


def test_reply_with_a_granted_block_asks_for_the_others(tmp_path: Path) -> None:
    reply = f"{bash('echo two')}\n{ONE}\n{python('print(3)')}"
    with gated(tmp_path, ONE, reply, "Done.") as graph:
        graph.invoke(say(TASK), thread())
        waiting = graph.invoke(decide(COMMAND), thread())
        assert (outputs(waiting), asked(waiting)) == (["one"], ["echo two", "print(3)"])
        result = graph.invoke(decide(REJECT, APPROVE), thread())
    assert outputs(result) == ["one", "one", "3"]
    assert "Block 1 (bash) was not run. A person refused it: not now" in said_to_the_model(result)[1]


def test_grants_stay_in_their_thread_and_inputs_cannot_add_them(tmp_path: Path) -> None:
    grants = {"execute_code/*": {"tool": "execute_code", "digest": None, "shown": "", "question": ""}}
    smuggled = {"grants": grants, "grants_at_reply": grants}
    with gated(tmp_path, ONE, "Done.") as graph:
        assert not smuggled.keys() & graph.get_input_jsonschema()["properties"].keys()
        graph.invoke(say(TASK), thread())
        graph.invoke(decide(TOOL), thread())
        assert asked(graph.invoke({**say(TASK), **smuggled}, thread("2"))) == ["echo one"]
        assert not standing(graph.get_state(thread("2")).values.get("grants"))


RULES = """
[[rule]]
tool = "execute_code"
language = "bash"
exact = "echo one"
decision = "allow"

[[rule]]
tool = "execute_code"
exact = "print(2)"
decision = "deny"
"""


@pytest.mark.parametrize("approvals", [INTERRUPT_ON, None])
def test_rules_decide_on_blocks_before_a_person(tmp_path: Path, approvals: Any) -> None:
    (tmp_path / "rules.toml").write_text(RULES)
    log = DecisionLog(tmp_path / "decisions.jsonl")
    rules = RulesFile(tmp_path / "rules.toml")
    options = {"approvals": approvals, "rules": rules, "decision_log": log}
    with gated(tmp_path, TWO_BLOCKS, "Only one.", **options) as graph:
        result = graph.invoke(say(TASK), thread())
    assert (questions(result), outputs(result)) == ([], ["one"])
    told = next(each for each in result["messages"] if "blocks" in each.response_metadata)
    assert "Block 2 (python) was not run. It is denied by rule 2" in told.text
    decisions = [each.get("decision") for each in told.response_metadata["blocks"]]
    assert decisions[1]["rule"] == "rule 2 (deny execute_code print(2))"
    assert log.of_thread("1") == [each for each in decisions if each]
    assert [each and each["by"] for each in decisions] == ["rule" if approvals else None, "rule"]
