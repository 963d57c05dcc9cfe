"""The declaration of calls, and what rules and grants say about a call that declares some."""

from __future__ import annotations

from pathlib import Path

import pytest

from libs.middleware.approvals import Request, Rules
from libs.sandbox import declared_uses

RULES = """
[[rule]]
tool = "execute"
prefix = ["ls"]
decision = "allow"

[[rule]]
tool = "mcp:notes.read"
decision = "allow"

[[rule]]
tool = "mcp:notes.erase"
decision = "deny"
"""


@pytest.mark.parametrize(
    ("text", "uses"),
    [
        ("# uses: notes.write\nls", ("notes.write",)),
        (
            "#!/bin/bash\n\n#uses: notes.write, files.read notes.write\n# uses: a.b%2Fc\nls",
            ("notes.write", "files.read", "a.b%2Fc"),
        ),
        ("ls\n# uses: notes.write", ()),
        ("ls # uses: notes.write", ()),
        ("  # uses: notes.write\nls", ()),
        ("# \u2028# uses: notes.write\nls", ()),
        ("# uses: everything", ()),
        (None, ()),
    ],
)
def test_only_the_first_lines_declare(text: object, uses: tuple[str, ...]) -> None:
    assert declared_uses(text) == uses


@pytest.mark.parametrize(
    ("command", "decision"),
    [
        ("ls", "allow"),
        ("# uses: notes.read\nls", "allow"),
        ("# uses: notes.write\nls", "ask"),
        ("# uses: notes.read, notes.write\nls", "ask"),
        ("# uses: notes.read\nrm x", "ask"),
        ("# uses: notes.read, notes.erase\nls", "deny"),
    ],
)
def test_rules_decide_on_the_command_and_on_each_declared_tool(command: str, decision: str) -> None:
    rules = Rules.parse(RULES, Path("rules.toml"))
    assert rules.decide("execute", {"command": command}) == decision


def test_card_names_the_declared_tools_first() -> None:
    request = Request("execute", {"command": "# uses: notes.write\nls"}, "1")
    assert request.description.startswith("May call, while it runs: notes.write\n")
