"""Rules that a person writes at a question: what is offered, what the file then holds, and their removal."""

from __future__ import annotations

import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.middleware.approvals import (
    NoRule,
    Rules,
    RulesError,
    add_rule,
    offers,
    remove_rule,
    rule_text,
)

TEAM = """\
# Rules of the team.   With odd   spaces.

[[rule]]  # first
tool   = 'execute'
prefix = ["ls"]
decision = "allow"
match = [
    "ls -l",  # a long listing
]

# Nobody pushes.
[[ rule ]]
tool = "execute"
prefix = ["git", "push"]
decision = "deny"

[[rule]]
tool = "execute_code"
exact = '''
[[rule]]
# not a rule'''
decision = "allow"
# The end.
"""


def run(command: str) -> tuple[str, dict[str, Any]]:
    return "execute", {"command": command}


def labels(tool: str, args: dict[str, Any], rules: str = "") -> list[str]:
    return [offer.label for offer in offers(Rules.parse(rules, Path("rules")), tool, args)]


def write(path: Path, tool: str, args: dict[str, Any], choice: int = -1) -> None:
    rules = Rules.load(path) if path.exists() else Rules()
    add_rule(path, tool, args, offers(rules, tool, args)[choice].text)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("git status", ["git …", "git status …", "exactly this"]),
        ("git log *.py -n 3", ["git …", "git log …", "exactly this"]),
        ("git status -s && git log | git status", ["git …", "exactly this"]),
        ("'a b' x", ["exactly this"]),
        ("cat x | head", ["exactly this"]),
        ("echo x > y", ["exactly this"]),
        ("x=1 git status", ["exactly this"]),
        ("eval 'rm x'", ["exactly this"]),
        ("git pu*", ["exactly this"]),
    ],
)
def test_prefixes_of_plain_commands_and_exact_texts_are_offered(command: str, expected: list[str]) -> None:
    assert labels(*run(command), rules=TEAM) == expected


def test_rules_for_programs_and_files_are_offered() -> None:
    assert labels("execute_code", {"code": "print(1)", "language": "python"}) == ["exactly this"]
    assert labels("edit_file", {"file_path": "/data/a", "old_string": "x"}) == ["any edit_file of /data/a"]
    assert labels("mcp:kv.get", {"key": "a"}) == ["every call of this tool"]


@pytest.mark.parametrize(
    ("tool", "args", "why"),
    [
        ("execute", {"command": "ls"}, "rule 1 (allow execute ls) allows such calls already"),
        ("execute", {"command": "git push"}, "rule 2 (deny execute git push) comes first"),
        ("execute", {"command": "echo \ud800"}, "characters"),
        ("execute_code", {"code": "x", "files": ["a"]}, "arguments beside its text"),
        ("edit_file", {"file_path": "../a"}, "relative or contains"),
        ("adopt_skill", {"skill": "x"}, "No rule can be about calls of adopt_skill"),
    ],
)
def test_call_without_a_possible_rule_says_why(tool: str, args: dict[str, Any], why: str) -> None:
    with pytest.raises(NoRule) as raised:
        labels(tool, args, rules=TEAM)
    assert why in str(raised.value)


def test_written_rule_holds_for_its_prefix_and_for_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "state" / "rules.toml"
    write(path, *run("git status -s"), choice=1)
    rules = Rules.load(path)
    assert [rules.decide(*run(each)) for each in ("git status", "git status -sb", "git log")] == [
        "allow",
        "allow",
        "ask",
    ]
    assert rules.decide(*run("git status; rm x")) == "ask"
    assert rules.all[0].match == ("git status -s",)
    first, *_ = path.read_text().splitlines()
    assert first.startswith("# Written on 2")
    assert path.stat().st_mode & 0o777 == 0o600


def test_path_of_a_written_rule_is_no_pattern(tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    write(path, "delete", {"file_path": "/data/[a]*.csv"})
    rules = Rules.load(path)
    assert rules.decide("delete", {"file_path": "/data/[a]*.csv"}) == "allow"
    assert rules.decide("delete", {"file_path": "/data/ab.csv"}) == "ask"
    assert rules.decide("edit_file", {"file_path": "/data/[a]*.csv"}) == "ask"


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_every_text_is_written_without_a_hidden_character_and_read_again(text: str) -> None:
    [offer] = offers(Rules(), "execute_code", {"code": text})
    assert tomllib.loads(offer.text)["rule"][0]["exact"] == text
    assert all(char.isprintable() or char in "\n\t" for char in offer.text)
    assert Rules.parse(offer.text, Path("rules")).decide("execute_code", {"code": text}) == "allow"


def test_file_keeps_its_text_mode_and_place(tmp_path: Path) -> None:
    (tmp_path / "real.toml").write_text(TEAM)
    (tmp_path / "real.toml").chmod(0o640)
    path = tmp_path / "rules.toml"
    path.symlink_to("real.toml")
    write(path, *run("echo a"), choice=0)
    assert path.read_text().startswith(TEAM)
    assert path.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o640
    remove_rule(path, 4, rule_text(path, 4))
    assert path.read_text() == TEAM


def test_removal_leaves_the_other_rules_and_comments(tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(TEAM)
    assert rule_text(path, 1).startswith("[[rule]]  # first")
    assert rule_text(path, 1).endswith("]\n")
    assert str(remove_rule(path, 1, rule_text(path, 1))) == "rule 1 (allow execute ls)"
    assert path.read_text() == TEAM[: TEAM.index("\n[[rule]]")] + TEAM[TEAM.index("\n# Nobody") :]
    remove_rule(path, 2, rule_text(path, 2))
    assert [rule.decision for rule in Rules.load(path).all] == ["deny"]
    assert path.read_text().endswith("# The end.\n")


def test_nothing_is_written_that_the_person_has_not_seen(tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(TEAM)
    for text in ("[[rule]]", offers(Rules(), *run("rm x"))[0].text):
        with pytest.raises(RulesError, match="Nothing was written"):
            add_rule(path, *run("echo a"), text)
    shown = rule_text(path, 2)
    with pytest.raises(RulesError, match="is another one now"):
        remove_rule(path, 1, shown)
    with pytest.raises(RulesError, match="no number 4"):
        rule_text(path, 4)
    assert path.read_text() == TEAM
    assert [each.name for each in tmp_path.iterdir()] == ["rules.toml"]


@pytest.mark.parametrize("text", ["[[rule]]\n", 'rule = [{tool = "mcp:a.b", decision = "ask"}]'])
def test_file_that_would_not_read_is_left_as_it_is(tmp_path: Path, text: str) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(text)
    with pytest.raises(RulesError):
        add_rule(path, *run("echo a"), offers(Rules(), *run("echo a"))[0].text)
    assert path.read_text() == text


def test_rules_that_are_written_at_once_are_all_kept(tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: write(path, *run(f"echo {number}")), range(24)))
    assert {rule.exact for rule in Rules.load(path).all} == {f"echo {number}" for number in range(24)}
