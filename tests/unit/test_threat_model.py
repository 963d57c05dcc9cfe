"""Every promise of docs/threat-model.md names tests, and every test that it names exists (Q5)."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/threat-model.md").read_text()
PROMISED = PAGE.partition("## What is promised")[2].partition("\n## ")[0]
NAMED = re.findall(r"`(tests/[\w/]+\.py(?:::\w+)+)`", PAGE)


@cache
def names_in(file: str) -> frozenset[str]:
    """Tests of a file, those of classes as `Class::test`."""
    found: set[str] = set()
    for node in ast.parse((ROOT / file).read_text()).body:
        members = node.body if isinstance(node, ast.ClassDef) else [node]
        prefix = f"{node.name}::" if isinstance(node, ast.ClassDef) else ""
        found |= {
            prefix + member.name
            for member in members
            if isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef) and member.name.startswith("test_")
        }
    return frozenset(found)


@pytest.mark.parametrize("name", sorted(set(NAMED)))
def test_the_test_exists(name: str) -> None:
    file, _, test = name.partition("::")
    assert (ROOT / file).is_file()
    assert test in names_in(file)


def test_every_promise_names_a_test() -> None:
    rows = [line for line in PROMISED.splitlines() if line.startswith("| ") and "Promise" not in line]
    assert len(rows) > 20
    assert [row for row in rows if not re.search(r"`tests/[\w/]+\.py::", row.split("|")[2])] == []


def test_what_is_not_promised_is_said() -> None:
    assert "## What is not promised" in PAGE
