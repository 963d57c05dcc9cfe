"""The result of a program: the last JSON value that it has printed, whatever stands around it (X3)."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.exec_tool.last_json import last_json

DEEP = "[" * 100_000 + "]" * 100_000


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1}', {"a": 1}),
        ('log\n{"a": 1}\n', {"a": 1}),
        ('{"a": 1}\n{"b": 2}\n', {"b": 2}),
        ('{"a": 1} {"b": 2} done', {"b": 2}),
        ('{\n "rows": [\n  {"x": 1},\n  {"x": 2}\n ]\n}\n', {"rows": [{"x": 1}, {"x": 2}]}),
        ("[1, 2]\nready", [1, 2]),
        ("the list is [1, 2], as expected", [1, 2]),
        ("42\n", 42),
        ("-1.5e3", -1500.0),
        ('"text"\n', "text"),
        ("true\nfalse\n", False),
        ('{"a": 1}\n7\n', 7),
        ('7\n{"a": 1}\n', {"a": 1}),
        ("[1]\n3 rows were read", [1]),
        ("{broken\n[1]", [1]),
        ('[1]\n{"broken": ', [1]),
        ('{"s": "} ] {"}', {"s": "} ] {"}),
        ('{"a": NaN, "b": -Infinity}', {"a": None, "b": None}),
        ('{"x": 1e999, "y": [-1e999, 1e3]}', {"x": None, "y": [None, 1000.0]}),
        ("\ufeff[1]", [1]),
        ("[1]\r\n", [1]),
        ('\x1b[32mok\x1b[0m {"a": 1}', {"a": 1}),
        ('{"a": "\\ud800"}', {"a": "?"}),
        ('{"ä": "ü"}', {"ä": "ü"}),
        ('{"a": 1, "a": 2}', {"a": 2}),
        ('"[1]"\n', "[1]"),
        ("[\n 1,\n 2\n]\n", [1, 2]),
    ],
)
def test_the_last_value(text: str, value: Any) -> None:
    found = last_json(text)
    assert found.note == ""
    assert found.value == value


def test_null_is_a_value() -> None:
    assert last_json("null").note == ""


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "done",
        "total: 42",
        "NaN",
        "Infinity",
        "nothing",
        "{'a': 1}",
        "[1, 2",
        '"open',
        "\x00\xff",
        "1 2",
    ],
)
def test_none_and_why(text: str) -> None:
    found = last_json(text)
    assert found.value is None
    assert found.note == "The program printed no JSON value."


@pytest.mark.parametrize("text", [DEEP, '{"a":' * 50_000 + "1" + "}" * 50_000, "[" * 150 + "]" * 150])
def test_nested_too_deeply(text: str) -> None:
    found = last_json(text)
    assert found.value is None
    assert "nested too deeply" in found.note


@pytest.mark.parametrize(
    "text",
    ["[" * 1_000_000, '{"a":' * 200_000, '["' * 500_000, "{" * 500_000 + "}" * 500_000, "9" * 1_000_000],
)
def test_nothing_takes_for_ever(text: str) -> None:
    begun = time.monotonic()
    last_json(text)
    assert time.monotonic() - begun < 20


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=20,
    ),
    st.text(st.characters(codec="utf-8", exclude_characters='[]{}"'), max_size=40),
    st.booleans(),
)
def test_whatever_was_printed_last_is_found(value: Any, before: str, pretty: bool) -> None:
    printed = json.dumps(value, indent=2 if pretty else None)
    assert last_json(f"{before}\n{printed}\n").value == value
