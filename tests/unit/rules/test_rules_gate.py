"""Rules at the gate: which calls run, wait or are denied, what the model reads, and what is recorded."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from libs.middleware.approvals import ApprovalMiddleware, DecisionLog, GrantsKept, RulesFile
from libs.models.scripted_model import ToolUse
from tests.support.gated_agents import (
    APPROVE,
    GATED,
    REJECT,
    TOOL,
    agent,
    decide,
    questions,
    ran,
    run,
    say,
    scripted,
    task,
    thread,
)

ALLOW_TWO = '[[rule]]\ntool = "execute"\nexact = "echo two >> ran.txt"\ndecision = "allow"\n'
ALLOW_ECHO = ALLOW_TWO.replace("two", "one")
DENY_TOUCH = '[[rule]]\ntool = "execute"\nprefix = ["touch"]\ndecision = "deny"\n'
ASK_ONE = '[[rule]]\ntool = "execute"\nprefix = ["echo", "one"]\ndecision = "ask"\n'
TOUCH = ToolUse(name="execute", args={"command": "touch ran.txt; echo three >> ran.txt"})


class Place:
    """A folder with a rules file, a record of decisions, and agents that use both."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rules = folder / "rules.toml"
        self.log = DecisionLog(folder / "state" / "decisions.jsonl")
        self.saver = InMemorySaver()

    def agent(self, scripts: Sequence[Any], *, off: bool = False, **options: Any) -> Any:
        file = RulesFile(self.rules)
        gated = {**GATED, **options.pop("gated", {})}
        gate = GrantsKept(file, self.log) if off else ApprovalMiddleware(gated, rules=file, log=self.log)
        talk = scripts if isinstance(scripts, dict) else {"go": scripts}
        return agent(self.folder, scripted(talk), checkpointer=self.saver, middleware=[gate], **options)

    def recorded(self) -> list[tuple[str, str, str]]:
        """Return decision, by, and rule or scope of each record."""
        records = map(json.loads, self.log.path.read_text().splitlines())
        return [(each["decision"], each["by"], each.get("rule") or each.get("scope", "")) for each in records]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def answers(result: dict[str, Any]) -> list[Any]:
    return [message for message in result["messages"] if message.type == "tool"]


def test_calls_of_a_reply_are_allowed_denied_and_asked_about(place: Place) -> None:
    place.rules.write_text(ALLOW_TWO + DENY_TOUCH)
    graph = place.agent([[run("one"), run("two"), TOUCH], "Done."])
    [question] = questions(graph.invoke(say("go"), thread()))
    assert [each["args"]["command"].split()[1] for each in question["action_requests"]] == ["one"]
    assert ran(place.folder) == [], "no call runs while another one waits"
    result = graph.invoke(decide(APPROVE), thread())
    assert sorted(ran(place.folder)) == ["one", "two"]
    denied = next(each for each in answers(result) if each.status == "error")
    assert "denied by rule 2 (deny execute touch). Nobody can approve it" in denied.text
    assert denied.artifact == {"rejected": True, "denied_by": "rule 2 (deny execute touch)"}
    assert place.recorded() == [
        ("approve", "person", ""),
        ("approve", "rule", "rule 1 (allow execute echo two >> ran.txt)"),
        ("deny", "rule", "rule 2 (deny execute touch)"),
    ]
    marks = [each.response_metadata["decision"] for each in answers(result)]
    assert sorted(each["by"] for each in marks) == ["person", "rule", "rule"]
    assert place.log.path.stat().st_mode & 0o777 == 0o600
    [first, *_] = place.log.of_thread("1")
    assert first["digest"] == question["action_requests"][0]["digest"]


def test_nobody_is_asked_about_allowed_and_denied_calls(place: Place) -> None:
    place.rules.write_text(ALLOW_TWO + DENY_TOUCH)
    result = place.agent([[run("two"), TOUCH], [run("two")], "Done."]).invoke(say("go"), thread())
    assert (questions(result), ran(place.folder)) == ([], ["two", "two"])


def test_deny_holds_where_approvals_are_off(place: Place) -> None:
    place.rules.write_text(DENY_TOUCH + ASK_ONE)
    result = place.agent([[run("one"), TOUCH], "Done."], off=True).invoke(say("go"), thread())
    assert (questions(result), ran(place.folder)) == ([], ["one"])
    assert "denied by rule 1" in answers(result)[1].text
    assert place.recorded() == [("deny", "rule", "rule 1 (deny execute touch)")]


def test_no_grant_covers_a_denied_call_or_one_that_a_rule_asks_about(place: Place) -> None:
    place.rules.write_text(DENY_TOUCH + ASK_ONE)
    graph = place.agent([[run("zero")], [TOUCH], [run("four"), run("one")], "Done."])
    graph.invoke(say("go"), thread())
    waiting = graph.invoke(decide(TOOL), thread())
    assert ran(place.folder) == ["zero"]
    [question] = questions(waiting)
    assert [each["args"]["command"].split()[1] for each in question["action_requests"]] == ["one"]
    graph.invoke(decide(REJECT), thread())
    assert ran(place.folder) == ["zero", "four"]
    assert ("approve", "grant", "tool") in place.recorded()


def test_edited_call_is_denied_as_well(place: Place) -> None:
    place.rules.write_text(DENY_TOUCH)
    graph = place.agent([[run("one")], "Done."], gated={"execute": True})
    graph.invoke(say("go"), thread())
    edit = {"type": "edit", "edited_action": {"name": "execute", "args": {"command": "touch new"}}}
    result = graph.invoke(decide(edit), thread())
    assert "denied by rule 1" in answers(result)[0].text
    assert not (place.folder / "new").exists()


def test_rule_that_is_written_while_a_question_waits_does_not_answer_it(place: Place) -> None:
    graph = place.agent([[run("two"), run("one")], [run("two")], "Done."])
    assert len(questions(graph.invoke(say("go"), thread()))[0]["action_requests"]) == 2
    place.rules.write_text(ALLOW_TWO)
    result = graph.invoke(decide(REJECT, APPROVE), thread())
    assert (questions(result), ran(place.folder)) == ([], ["one", "two"]), "the second reply is allowed"


def test_rule_that_is_written_while_a_question_waits_leaves_the_other_calls_of_the_reply_allowed(
    place: Place,
) -> None:
    place.rules.write_text(ALLOW_TWO)
    graph = place.agent([[run("two"), run("one")], "Done."])
    [question] = questions(graph.invoke(say("go"), thread()))
    assert [each["args"]["command"].split()[1] for each in question["action_requests"]] == ["one"]
    place.rules.write_text(f"# A comment.\n{ALLOW_TWO}\n{DENY_TOUCH}")
    result = graph.invoke(decide(APPROVE), thread())
    assert (questions(result), sorted(ran(place.folder))) == ([], ["one", "two"])


def test_removal_of_a_rule_does_not_answer_the_question_that_it_asked(place: Place) -> None:
    place.rules.write_text(ASK_ONE + ALLOW_ECHO)
    graph = place.agent([[run("one")], "Done."])
    assert questions(graph.invoke(say("go"), thread()))
    place.rules.write_text(ALLOW_ECHO)
    graph.invoke(decide(REJECT), thread())
    assert ran(place.folder) == []


def test_deny_that_is_written_while_a_question_waits_beats_the_approval(place: Place) -> None:
    graph = place.agent([[TOUCH], "Done."])
    graph.invoke(say("go"), thread())
    place.rules.write_text(DENY_TOUCH)
    result = graph.invoke(decide(APPROVE), thread())
    assert "denied by rule 1" in answers(result)[0].text
    assert ran(place.folder) == []


@pytest.mark.parametrize("off", [False, True])
def test_gated_calls_are_refused_while_the_file_is_broken(place: Place, off: bool) -> None:
    place.rules.write_text(ALLOW_TWO)
    graph = place.agent(
        [[run("two"), ToolUse(name="ls", args={"path": "/"})], "Ok.", [run("two")], "Done."], off=off
    )
    place.rules.write_text(ALLOW_TWO + "match = ['x']")
    result = graph.invoke(say("go"), thread())
    refused, listed = sorted(answers(result), key=lambda each: each.status != "error")
    assert (questions(result), ran(place.folder)) == ([], [])
    assert "cannot be read. No such call runs before a person mends the file" in refused.text
    assert "the example 'x'" in refused.text
    assert listed.status == "success", "a call that is not gated runs"
    place.rules.write_text(ALLOW_TWO)
    graph.invoke(say("go on"), thread())
    assert ran(place.folder) == ["two"]


def test_rules_bind_subagents(place: Place) -> None:
    place.rules.write_text(ALLOW_TWO + DENY_TOUCH)
    scripts = {"go": [[task("sub")], "Done."], "sub": [[run("two"), TOUCH], "Ok."]}
    result = place.agent(scripts).invoke(say("go"), thread())
    assert (questions(result), ran(place.folder)) == ([], ["two"])
    assert [each[0] for each in place.recorded()] == ["approve", "deny"]


def test_rules_decide_on_new_files_and_others_are_free(place: Place) -> None:
    place.rules.write_text(
        '[[rule]]\ntool = "write_file"\npath = "/**/.git/**"\ndecision = "deny"\n'
        '[[rule]]\ntool = "write_file"\npath = "/**/*.sh"\ndecision = "ask"\n'
    )

    def write(name: str) -> ToolUse:
        return ToolUse(name="write_file", args={"file_path": f"{place.folder}/{name}", "content": "x"})

    graph = place.agent([[write("a.txt"), write(".git/config"), write("b.sh")], "Done."])
    [question] = questions(graph.invoke(say("go"), thread()))
    assert question["action_requests"][0]["args"]["file_path"].endswith("b.sh")
    graph.invoke(decide(APPROVE), thread())
    names = sorted(path.name for path in place.folder.rglob("*") if path.is_file())
    assert names == ["a.txt", "b.sh", "decisions.jsonl", "rules.toml"]


async def test_rules_are_read_without_blocking_the_event_loop(place: Place) -> None:
    place.rules.write_text(ALLOW_TWO + DENY_TOUCH)
    result = await place.agent([[run("two"), TOUCH], "Done."]).ainvoke(say("go"), thread())
    assert (questions(result), ran(place.folder)) == ([], ["two"])
    assert len(place.recorded()) == 2


def test_record_never_follows_a_link(place: Place) -> None:
    place.log.path.parent.mkdir()
    place.log.path.symlink_to(place.folder / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        place.log.add([{"thread": "1"}])
