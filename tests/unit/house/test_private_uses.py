"""Shows that the contract tests would find each way to use a private name."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.support.private_uses import attributes, attributes_by_name, imported, inherited


@pytest.mark.parametrize(
    ("program", "name"),
    [
        ("from langgraph_api.validation import openapi", "langgraph_api.validation.openapi"),
        ("from lib._inner import Name", "lib._inner.Name"),
        ("from lib import _name", "lib._name"),
        ("import _lib", "_lib"),
        ("import lib._inner as inner", "lib._inner"),
        ("run('-c', 'import os; from lib._inner import name')", "lib._inner"),
        ("config['__pregel_read']", "__pregel_"),
        ("value: lib._Type = theirs._name()", "_name"),
        ("theirs._name = 1", "_name"),
        ("getattr(theirs, '_name', None)", "_name"),
        ("operator.attrgetter('_name')", "_name"),
    ],
)
def test_uses_of_private_names_are_found(program: str, name: str) -> None:
    tree = ast.parse(program)
    assert {*imported(tree, ()), *attributes(tree), *attributes_by_name(tree)} == {name}


def test_uses_of_inherited_private_names_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = """
from threading import Thread

class Overrides(Thread):
    def _bootstrap(self): ...

class Reads(Overrides):
    def own(self): return self._target

class Sets(Thread):
    def own(self): self._kwargs = self._own = {}
"""
    (tmp_path / "inheriting.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    found = set(inherited("inheriting.py", ast.parse(text), {"inheriting"}))
    assert found == {"_bootstrap", "_kwargs", "_target"}
