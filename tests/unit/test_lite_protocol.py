"""The protocol of run-lite: one JSON object of two kinds, and nothing that merely looks like it (R4)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.lite.loop import MAX_CALLS
from libs.lite.protocol import PROMPT, Final, InvalidOutput, ToolUse, read_reply, tool_result
from libs.lite.tools import TOOLS

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
SPACE = st.text(" \t\r\n", max_size=5)
REPLIES = st.one_of(
    st.builds(lambda content: {"type": "final", "content": content}, st.text()),
    st.builds(
        lambda name, args: {"type": "tool", "name": name, "args": args},
        st.text(),
        st.dictionaries(st.text(), JSON, max_size=3),
    ),
)


def expected(reply: dict[str, Any]) -> ToolUse | Final:
    return Final(reply["content"]) if "content" in reply else ToolUse(reply["name"], reply["args"])


@given(REPLIES, SPACE, SPACE, st.sampled_from([None, 2]))
def test_what_the_protocol_allows_is_read(
    reply: dict[str, Any], before: str, behind: str, indent: int | None
) -> None:
    assert read_reply(f"{before}{json.dumps(reply, indent=indent)}{behind}") == expected(reply)


@given(REPLIES, st.text(min_size=1).filter(lambda text: text.strip()))
def test_anything_beside_the_object_is_refused(reply: dict[str, Any], beside: str) -> None:
    for text in (beside + json.dumps(reply), json.dumps(reply) + beside):
        with pytest.raises(InvalidOutput, match=r"^Invalid model output format$"):
            read_reply(text)


@given(st.text() | JSON.map(json.dumps))
def test_nothing_else_is_taken_and_nothing_else_is_raised(text: str) -> None:
    try:
        found = read_reply(text)
    except InvalidOutput:
        return
    assert json.loads(text)["type"] in {"final", "tool"}
    assert isinstance(found, Final | ToolUse)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Done.",
        "null",
        "[]",
        '"final"',
        '[{"type": "final", "content": "x"}]',
        '{"type": "final"}',
        '{"type": "final", "content": null}',
        '{"type": "final", "content": {"text": "x"}}',
        '{"type": "Final", "content": "x"}',
        '{"type": "tool"}',
        '{"type": "tool", "name": 3, "args": {}}',
        '{"type": "tool", "name": "read_file", "args": null}',
        '{"type": "tool", "name": "read_file", "args": ["a.txt"]}',
        '{"content": "x"}',
        '{"type": "final", "content": "x"} {"type": "final", "content": "y"}',
        '{"type": "final", "content": "x",}',
        "{'type': 'final', 'content': 'x'}",
        '```json\n{"type": "final", "content": "x"}\n```',
        "[" * 100_000,
        '{"type": "final", "content": "x", "n": ' + "9" * 5_000 + "}",
    ],
    ids=lambda text: text[:40],
)
def test_refused(text: str) -> None:
    with pytest.raises(InvalidOutput):
        read_reply(text)


@pytest.mark.parametrize(
    "fence", ["```json\n{}\n```", "```\n{}\n```", "~~~~ JSON\r\n{}\n~~~~", " ```json\n{}\n  ``` \n"]
)
def test_a_fence_around_all_of_it_is_taken_off_only_where_that_is_chosen(fence: str) -> None:
    text = fence.replace("{}", '{"type": "final", "content": "a ``` b"}')
    assert read_reply(text, lenient_fences=True) == Final("a ``` b")
    with pytest.raises(InvalidOutput):
        read_reply(text)


@pytest.mark.parametrize(
    "fence", ["So: ```json\n{}\n```", "```json\n{}", "```json {} ```", "```python\n{}\n```"]
)
def test_other_fences_are_refused_even_then(fence: str) -> None:
    with pytest.raises(InvalidOutput):
        read_reply(fence.replace("{}", '{"type": "final", "content": "x"}'), lenient_fences=True)


def test_arguments_may_be_left_out() -> None:
    assert read_reply('{"type": "tool", "name": "list_files"}') == ToolUse("list_files", {})


@given(st.text(), st.text())
def test_no_file_can_pass_for_the_end_of_a_result(name: str, text: str) -> None:
    assert json.loads(tool_result(name, text)) == {"type": "tool_result", "name": name, "result": text}


def test_the_prompt_is_true() -> None:
    assert all(f"- {name} {{" in PROMPT for name in TOOLS)
    assert MAX_CALLS == 6 and "six replies in all" in PROMPT
