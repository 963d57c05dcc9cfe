"""What is read in a reply: a corpus of tricky ones, and properties that hold for any."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from libs.code_blocks.reader import MAX_REPLY, Block, Reading, read_reply, without_thoughts

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


def test_the_corpus_is_large_enough() -> None:
    assert len(CORPUS) >= 60
    assert len({entry["name"] for entry in CORPUS}) == len(CORPUS)


@pytest.mark.parametrize("entry", CORPUS, ids=lambda entry: entry["name"])
def test_corpus(entry: dict[str, Any]) -> None:
    assert read_reply(without_thoughts(entry["reply"])) == expected(entry)


@given(MARKDOWN | st.text(max_size=300))
def test_any_text_is_read(reply: str) -> None:
    reading = read_reply(without_thoughts(reply))
    assert all(block.language in {"python", "bash"} and block.code.strip() for block in reading.blocks)


@given(
    CODE,
    st.sampled_from("`~"),
    st.sampled_from(["python", "Py", "bash", "SHELL", "python3 a=1"]),
    st.integers(0, 9),
)
def test_code_in_a_long_enough_fence_comes_back_to_the_byte(
    code: str, mark: str, tag: str, longer: int
) -> None:
    fence = fence_for(code, mark) + mark * longer
    [block] = read_reply(f"Look:\n{fence}{tag}\n{code}\n{fence}\nDone.").blocks
    assert block.code == code


@given(
    st.lists(st.tuples(st.sampled_from(["python", "bash"]), CODE), max_size=6),
    st.sampled_from(["", "Then:", "\n"]),
)
def test_the_order_is_kept(blocks: list[tuple[str, str]], between: str) -> None:
    parts = [f"{fence_for(code, '`')}{tag}\n{code}\n{fence_for(code, '`')}" for tag, code in blocks]
    assert read_reply(f"\n{between}\n".join(parts)).blocks == tuple(Block(tag, code) for tag, code in blocks)


@given(CODE, st.integers(1, 30))
def test_a_block_cut_off_anywhere_is_never_run(code: str, cut: int) -> None:
    fence = fence_for(code, "`")
    whole = f"{fence}python\n{code}\n{fence}"
    assert read_reply(whole[: max(len(fence), len(whole) - cut)]).blocks == ()


UNITS = [
    *(
        "word ",
        "a line\n",
        "\n",
        ">",
        "> ",
        "- ",
        "1. a\n",
        "`",
        "[\n",
        "[a]: b\n",
        "<div>\n",
        "> a\nb\n",
        "|a|b|\n",
    ),
    *("```bash\n", "```python\nx\n```\n", "    ```\n", "{", '{"name": "x", ', '{"a":[', "<think>"),
]


@pytest.mark.parametrize("unit", UNITS)
def test_the_longest_reply_is_read_quickly(unit: str) -> None:
    reply = (unit * (MAX_REPLY // len(unit) + 1))[:MAX_REPLY]
    begun = time.process_time()
    assert read_reply(without_thoughts(reply)).problem != "too_long"
    assert time.process_time() - begun < 3, "half a second on an idle machine"


@pytest.mark.parametrize("filling", ["a", " ", "`", "~", "{ ", '{"name": "', "\n"])
def test_no_line_takes_forever(filling: str) -> None:
    line = "``` " + filling * (90_000 // len(filling)) + "`"
    begun = time.process_time()
    read_reply(f"~~~bash\n{line}\n~~~\n```bash\n{line}\n```\n"[:MAX_REPLY])
    read_reply(line)
    assert time.process_time() - begun < 3


def test_a_megabyte_is_refused() -> None:
    begun = time.process_time()
    assert read_reply("```bash\nls\n```\n" + "x " * 500_000) == Reading(problem="too_long")
    assert time.process_time() - begun < 0.5


def test_thoughts_are_no_part_of_a_reply() -> None:
    assert without_thoughts("<think>a</think>b") == "b"
    assert without_thoughts("\n<thinking>\na\n</thinking>\n\nb") == "\n\nb"
    assert without_thoughts("<think>never closed") == ""
    assert without_thoughts("a <think> in the middle </think>") == "a <think> in the middle </think>"
    # The prompt of some servers ends with the first tag.
    assert without_thoughts("I could\n```bash\nrm draft\n```\n</think>\n\nb") == "\n\nb"
    code = "```python\nprint('<think>\\n')\n'''\n</think>\n'''\n```"
    assert without_thoughts(code) == code
