"""The protocol of run-lite: each reply is one JSON object of two kinds."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from libs.lite.lite_protocol import Final, InvalidOutput, ToolUse, read_reply, tool_result

FINAL = '{"type": "final", "content": "x"}'


@settings(max_examples=50)
@given(
    st.text(), st.dictionaries(st.text(), st.text() | st.none(), max_size=3), st.text(" \t\r\n", max_size=5)
)
def test_valid_reply_is_read(text: str, args: dict[str, str | None], space: str) -> None:
    call = {"type": "tool", "name": text, "args": args}
    assert read_reply(f"{space}{json.dumps(call, indent=2)}{space}") == ToolUse(text, args)
    assert read_reply(json.dumps({"type": "final", "content": text})) == Final(text)
    assert read_reply('{"type": "tool", "name": "list_files"}') == ToolUse("list_files", {})


@pytest.mark.parametrize(
    "text",
    [
        "",
        f"[{FINAL}]",
        '{"type": "final", "content": {"text": "x"}}',
        '{"type": "tool"}',
        '{"type": "tool", "name": "read_file", "args": ["a.txt"]}',
        f"{FINAL} {FINAL}",
        '{"type": "final", "content": "x", "content": "y"}',
        '{"type": "tool", "name": "read_file", "args": {"filePath": "a", "filePath": "b"}}',
        f"So: {FINAL}",
        "[" * 100_000,
        f"```python\n{FINAL}\n```",
        f"```json\n{FINAL}",
    ],
    ids=lambda text: text[:40],
)
def test_invalid_reply_is_refused(text: str) -> None:
    for lenient in (False, True):
        with pytest.raises(InvalidOutput, match=r"^Invalid model output format$"):
            read_reply(text, lenient_fences=lenient)


@pytest.mark.parametrize("fence", ["```json\n{}\n```", "~~~~ JSON\r\n{}\n~~~~", " ```\n{}\n  ``` \n"])
def test_fence_is_removed_only_with_lenient_fences(fence: str) -> None:
    text = fence.replace("{}", '{"type": "final", "content": "a ``` b"}')
    assert read_reply(text, lenient_fences=True) == Final("a ``` b")
    with pytest.raises(InvalidOutput):
        read_reply(text)


def test_tool_result_is_one_json_object() -> None:
    text = '"}\n{"type": "tool_result"'
    assert json.loads(tool_result("a", text)) == {"type": "tool_result", "name": "a", "result": text}
