"""The result of a program: the last JSON value in its output."""

from __future__ import annotations

import time
from typing import Any

import pytest
from langchain_core.messages import ToolMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from libs.exec_tool.outcome import last_json

FLOATS = [0.1, 0.1, 1.5, -0.0, 1e22, 5e-324, 0.1 + 0.2, 0.0]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1}', {"a": 1}),
        ('{"a": 1} {"b": 2} done', {"b": 2}),
        ('{\n "rows": [\n  {"x": 1},\n  {"x": 2}\n ]\n}\n', {"rows": [{"x": 1}, {"x": 2}]}),
        ("the list is [1, 2], as expected", [1, 2]),
        ('"text"\n', "text"),
        ('{"a": 1}\n7\n', 7),
        ('7\n{"a": 1}\n', {"a": 1}),
        ("[1]\n3 rows were read", [1]),
        ('[1]\n{"broken": ', [1]),
        ('[[[ x {"a": 1} [2, {"b": [3]}] "', [2, {"b": [3]}]),
        ('{"a" 1} {"a": 1,} [1,] {1: 2} [1 2] [01] [1]', [1]),
        ('{"s": "} ] {"}', {"s": "} ] {"}),
        ("\ufeff[1]", [1]),
        ('\x1b[32mok\x1b[0m {"a": 1}', {"a": 1}),
        ('range [0, 5)\n{"a": 1}\nrange (0, 5]', {"a": 1}),
        ('[INFO] {"a": 1} [done]', {"a": 1}),
        ("{'a': 1}\n7\n", 7),
        ("[see\n7\n]", 7),
        ('{"a": 1}\n7\n' + "x\n" * 2_000, 7),
        (f"[{2**64 - 1}, {-(2**63)}]", [2**64 - 1, -(2**63)]),
        (f"[1{'0' * 40}]", [1e40]),
        ('"[1]"\n', "[1]"),
        ("null", None),
        ("[0.1, 0.10000000000000001, 1.50, -0.0, 1e22, 5e-324, 0.30000000000000004, 0e-999]", FLOATS),
    ],
)
def test_last_value_is_found(text: str, value: Any) -> None:
    found = last_json(text)
    assert (found.note, found.replaced) == ("", "")
    assert found.value == value


@pytest.mark.parametrize(
    ("text", "value", "replaced"),
    [
        ('{"a": NaN, "b": -Infinity}', {"a": None, "b": None}, "NaN"),
        *((f"[1]\n{bare}\n", None, "print them as text") for bare in ("NaN", "Infinity", "-Infinity")),
        ('{"x": 1e999, "y": [-1e999, 1e3]}', {"x": None, "y": [None, 1000.0]}, "beyond 1.8e308"),
        ('{"a": "\\ud800"}', {"a": "\ufffd"}, "U+FFFD"),
        ('"\\ud83d"', "\ufffd", "U+FFFD"),
        ('[{"a": 1, "a": 2}]', [{"a": 2}], "comes twice"),
        ('{"total": 12345678901234567.89}', {"total": 12345678901234568.0}, "rounded"),
        ("[9007199254740993.0]", [9007199254740992.0], "rounded"),
        ("[1e-999]", [0.0], "rounded"),
        ("[1e-99999999999999999999]", [0.0], "rounded"),
        (f'{{"n": {2**64 + 1}}}', {"n": 2.0**64}, "rounded"),
        (f"[{-(2**63) - 1}]", [-(2.0**63)], "rounded"),
        ("5\n" + "9" * 5_000, None, "beyond 1.8e308"),
        ('{"\\ud800": 1, "\\ud801": 2}', {"\ufffd": 2}, "comes twice"),
        ('{"name": "M\ufffdller"}', {"name": "M\ufffdller"}, "not UTF-8"),
    ],
)
def test_replaced_values_are_noted(text: str, value: Any, replaced: str) -> None:
    found = last_json(text)
    assert found.note == ""
    assert found.value == value
    assert replaced in found.replaced


@pytest.mark.parametrize(
    "text",
    [
        "",
        "total: 42",
        "nan",
        "{'a': 1}",
        "[1, 2",
        "{'total': 12.5, 'by_region': [1, 2], 'note': 'x'}",
        "{'status': 'failed', 'ok': False, 'rows': []}",
        '{"a": [1, 2],}',
        '{"a": {"b": 1}, "c": ',
        '{"broken": [1, {"a": [2]}, {"b": 3}, x [4',
        "[" * 2_000 + '{"ok": 1}',
        "[[1, 2], None]",
        "{'rows': [1,\n          2],\n 'x': {}}",
        "[[1.]\n [2]\n [3]]",
        '[\n  "a",\n  "b"\n',
        "{'a':\n 5\n}",
        "(1, {'a': [{}]})",
    ],
)
def test_output_without_json_gives_a_note(text: str) -> None:
    found = last_json(text)
    assert found.value is None
    assert found.note == "The output holds no JSON value."


CUT = "\n[… 1,234 characters left out …]\n"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (f'[{{"a": 1}},{CUT}{{"a": 9}}]\n', None),
        (f'{{"rows": [{CUT} {{"a": 9}}\n], "sum": {{"b": 1}}}}\n', None),
        (f'{{"rows": [{CUT}x\n{{"a": 9}},\n{{"a": 10}}\n]}}\n', None),
        (f'{{"a": 1}}\n{CUT}x\n', None),
        (f"12{CUT}34\n", None),
        (f'x{CUT}x\n{{"a": 1}}\ndone\n', {"a": 1}),
        (f"x{CUT}x\n7\n", 7),
        ('{"only": "stderr was cut"}', {"only": "stderr was cut"}),
    ],
)
def test_value_counts_in_a_cut_output_only_if_it_is_whole(text: str, value: Any) -> None:
    found = last_json(text, cut=True)
    assert found.value == value
    assert ("Its output was cut" in found.note) is (value is None)


@pytest.mark.parametrize("text", ["[" * 3_000 + "]" * 3_000, '{"a":' * 150 + "1" + "}" * 150])
def test_deep_nesting_gives_a_note(text: str) -> None:
    found = last_json(text)
    assert found.value is None
    assert "nested too deeply" in found.note


@pytest.mark.parametrize(
    "text",
    ["[", '{"a":', '["', '["\\"', "[1,", "[[1],", '\n"', "9", "9x\n", "[ \n", '"\\"'],
)
def test_hostile_output_takes_linear_time(text: str) -> None:
    """A quadratic search would take minutes."""
    begun = time.process_time()
    last_json(text * (1_000_000 // len(text)))
    assert time.process_time() - begun < 20


def test_every_value_can_be_kept_in_a_checkpoint() -> None:
    for number in (f"{2**63}", f"{2**64}", f"{-(2**63) - 1}", "9" * 5_000):
        found = last_json(f"[{number}]")
        message = ToolMessage("", tool_call_id="1", artifact={"result": found.value})
        assert JsonPlusSerializer().dumps_typed([message])[0] == "msgpack"
