"""Every promise of docs/threat-model.md names at least one test, and every named test exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

from tests.integration.gvisor import EXCEPTIONS

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/threat-model.md").read_text()
PROMISED = PAGE.partition("## What is promised")[2].partition("\n## ")[0]
NAMED = re.findall(r"`(tests/[\w/]+\.py(?:::\w+)+)`", PAGE)


@cache
def names_in(file: str) -> frozenset[str]:
    """Return the tests of a file, those of classes as `Class::test`."""
    found: set[str] = set()
    path = ROOT / file
    for node in ast.parse(path.read_text()).body if path.is_file() else ():
        members = node.body if isinstance(node, ast.ClassDef) else [node]
        prefix = f"{node.name}::" if isinstance(node, ast.ClassDef) else ""
        found |= {
            prefix + member.name
            for member in members
            if isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef) and member.name.startswith("test_")
        }
    return frozenset(found)


def test_every_named_test_exists() -> None:
    parted = [name.partition("::") for name in sorted(set(NAMED))]
    assert len(parted) > 100
    assert [name for name in parted if name[2] not in names_in(name[0])] == []


def test_exceptions_with_gvisor_exist_and_stand_on_the_page() -> None:
    assert [reason for reason in EXCEPTIONS if f"| {reason} |" not in PAGE] == []
    tests = [
        test.partition("[")[0].partition("::") for failing in EXCEPTIONS.values() for test in failing.tests
    ]
    assert [test for test in tests if test[2] not in names_in(test[0])] == []


def test_every_promise_names_a_test() -> None:
    assert "## What is not promised" in PAGE
    rows = [line for line in PROMISED.splitlines() if line.startswith("| ") and "Promise" not in line]
    assert len(rows) > 20
    assert [row for row in rows if not re.search(r"`tests/[\w/]+\.py::", row.split("|")[2])] == []
