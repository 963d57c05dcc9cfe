"""Reading code blocks: a corpus of difficult replies, and properties of all replies."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from libs.code_blocks.block_reader import MAX_REPLY, Block, Reading, read_reply, without_thoughts

CORPUS = [
    entry
    for path in sorted(Path(__file__).with_name("corpus_replies").glob("*.yaml"))
    for entry in yaml.safe_load(path.read_text(encoding="utf-8"))
]
MARKUP = [
    "```",
    "python",
    "bash\n",
    "\n```",
    "    ",
    "> ",
    "<think>",
    '{"name": ',
    "ä",
    *"`~ \n\t->#*1.{}<x\r",
]
MARKDOWN = st.lists(st.sampled_from(MARKUP), max_size=80).map("".join)
LINE_ENDS = "\r\0"
CODE = st.text(st.characters(exclude_characters=LINE_ENDS, exclude_categories=["Cs"]), max_size=200).filter(
    str.strip
)


def expected(entry: dict[str, Any]) -> Reading:
    fields = {key: value for key, value in entry.items() if key not in {"name", "reply"}}
    fields["blocks"] = tuple(Block(language, code) for language, code in fields.get("blocks", []))
    fields["others"] = tuple(fields.get("others", []))
    return Reading(**fields)


def fence_for(code: str, mark: str) -> str:
    """The shortest fence that nothing in the code can close or be taken for."""
    longest = max((len(run) for run in re.findall(rf"{mark}+", code)), default=0)
    return mark * max(3, longest + 1)


@pytest.mark.parametrize("entry", CORPUS, ids=lambda entry: entry["name"])
def test_corpus(entry: dict[str, Any]) -> None:
    assert read_reply(without_thoughts(entry["reply"])) == expected(entry)


@pytest.mark.parametrize("character", ["\0", "\ud800", "\udfff"])
def test_block_with_a_character_that_is_no_text_does_not_run(character: str) -> None:
    reply = f"{character}\n```bash\nls\n```\n```python\nprint('{character}')\n```\n```bash\nls\n```"
    assert read_reply(reply) == Reading((Block("bash", "ls"),), "not_text")


@given(MARKDOWN | st.text(max_size=300))
def test_any_text_can_be_read(reply: str) -> None:
    reading = read_reply(without_thoughts(reply))
    assert all(block.language in {"python", "bash"} and block.code.strip() for block in reading.blocks)


@given(
    CODE,
    st.sampled_from("`~"),
    st.sampled_from(["python", "Py", "bash", "SHELL", "python3 a=1"]),
    st.integers(0, 9),
)
def test_fenced_code_comes_back_unchanged(code: str, mark: str, tag: str, longer: int) -> None:
    fence = fence_for(code, mark) + mark * longer
    [block] = read_reply(f"Look:\n{fence}{tag}\n{code}\n{fence}\nDone.").blocks
    assert block.code == code


@given(CODE, st.integers(1, 30))
def test_cut_off_block_is_never_read(code: str, cut: int) -> None:
    fence = fence_for(code, "`")
    whole = f"{fence}python\n{code}\n{fence}"
    assert read_reply(whole[: max(len(fence), len(whole) - cut)]).blocks == ()


QUICK = ["a line\n", "```sh\n<<A\n```\n", "> a\nb\n", "```python\nx\n```\n", '{"name": "x", ']
SLOW = ["word ", ">", "- ", "`", "[a]: b\n", "<div>\n", "```bash\n", "    ```\n", "{", "<think>"]


@pytest.mark.parametrize("unit", [*QUICK, *(pytest.param(unit, marks=pytest.mark.thorough) for unit in SLOW)])
def test_longest_reply_is_read_in_bounded_time(unit: str) -> None:
    reply = (unit * (MAX_REPLY // len(unit) + 1))[:MAX_REPLY]
    begun = time.process_time()
    assert read_reply(without_thoughts(reply)).problem != "too_long"
    assert time.process_time() - begun < 3, "half a second on an idle machine"


def test_thoughts_are_removed() -> None:
    assert without_thoughts("<think>a</think>b") == "b"
    assert without_thoughts("\n<thinking>\na\n</thinking>\n\nb") == "\n\nb"
    assert without_thoughts("<think>never closed") == ""
    assert without_thoughts("a <think> in the middle </think>") == "a <think> in the middle </think>"
    # The prompt of some servers ends with the first tag.
    assert without_thoughts("I could\n```bash\nrm draft\n```\n</think>\n\nb") == "\n\nb"
    code = "```python\nprint('<think>\\n')\n'''\n</think>\n'''\n```"
    assert without_thoughts(code) == code
