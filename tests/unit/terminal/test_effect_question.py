"""A call that has run already: the terminal and an editor show what it did, and ask whether that stays."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any, cast

import pytest
from rich.console import Console

from agent.acp.acp_session import Session
from agent.acp.updates import Updates
from agent.parts import RuleBook
from agent.run import Approval
from agent.settings import load_settings
from agent.terminal import EventView, Person, ask_person
from agent.terminal.typed_answers import TypedAnswers
from tests.clients.acp_editor import Editor

SAID = """\
execute

command: rm /data/old.csv

It has run.

Deleted (1):
  /data/old.csv (12 bytes)

```diff
--- a
+++ b
-keep me
+keep you
```"""
EFFECT = {
    "created": ["/data/new\x1b.csv"],
    "changed": [],
    "deleted": ["/data/old.csv"],
    "more": {"deleted": 1200},
    "exit_code": 0,
    "output": "first\nlast\n",
    "seconds": 0.1,
}
QUESTION: dict[str, Any] = {
    "action_requests": [
        {
            "name": "execute",
            "args": {"command": "rm /data/old.csv"},
            "description": SAID,
            "digest": "d",
            "id": "call_1",
            "effect": EFFECT,
        }
    ],
    "review_configs": [{"action_name": "execute", "allowed_decisions": ["approve", "reject"]}],
}


class Typed:
    """A person who types these lines."""

    def __init__(self, *lines: str) -> None:
        self.lines = list(lines)
        self.prompts: list[str] = []

    async def choice(self, prompt: str) -> str:
        return await self.line(prompt)

    async def line(self, prompt: str) -> str:
        self.prompts.append(prompt)
        return self.lines.pop(0)


async def answered(folder: Path, *lines: str, once: bool = False) -> tuple[dict[str, Any], Typed, str]:
    """Return the decision, the prompts that were read, and what the terminal shows."""
    screen, typed = io.StringIO(), Typed(*lines)
    view = EventView(Console(file=screen, force_terminal=True, color_system="standard", width=100))
    rules = RuleBook(load_settings(folder / ".env", approval_rules=None))
    person = Person(cast("TypedAnswers", typed), rules)
    question = {**QUESTION, "scopes": ["call"]} if once else QUESTION
    [decision] = await ask_person(Approval("1", question, ()), view=view, person=person, thread="t")
    return decision, typed, screen.getvalue()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("k", {"type": "approve", "digest": "d"}),
        ("y", {"type": "approve", "digest": "d"}),
        ("t", {"type": "approve", "scope": "tool", "digest": "d"}),
        ("u it is needed", {"type": "reject", "message": "it is needed", "digest": "d"}),
        ("r no", {"type": "reject", "message": "no", "digest": "d"}),
    ],
)
async def test_effect_is_kept_or_undone(folder: Path, line: str, expected: dict[str, Any]) -> None:
    decision, typed, _ = await answered(folder, line)
    assert decision == expected
    assert "[k]eep what it did" in typed.prompts[0]
    assert "[u]ndo it" in typed.prompts[0]


async def test_call_has_run_and_its_changes_are_coloured(folder: Path) -> None:
    _, typed, screen = await answered(folder, "u", "", once=True)
    assert "Has run, and waits for your decision" in screen
    for line, colour in (("-keep me", 31), ("+keep you", 32), ("/data/old.csv (12 bytes)", 31)):
        assert f"\x1b[{colour}m  {line}" in screen.replace("m    /data", "m  /data")
    assert "undone" in screen
    assert "for the rest of the thread" not in typed.prompts[0]
    assert typed.prompts[1].startswith("Why? ")


async def test_all_paths_and_the_whole_output_are_shown_on_request(folder: Path) -> None:
    decision, typed, screen = await answered(folder, "m", "k")
    assert (decision["type"], len(typed.prompts)) == ("approve", 2)
    for text in ("deleted 1,200 more", "created /data/new‹U+001B›.csv", "│ first", "│ last"):
        assert text in screen
    assert screen.index("deleted /data/old.csv") < screen.index("created /data/new")


async def test_editor_offers_to_keep_or_undo() -> None:
    editor = Editor()
    session = Session("s", cast("Any", None), editor, None)
    asking = session._ask(Approval("1", QUESTION, ()), Updates(session._on_host))
    assert [each["type"] for each in await asking] == ["approve"]
    [(_, options)] = editor.asked
    assert [options[0].name, options[-1].name] == ["Keep what it did", "Undo what it did"]
