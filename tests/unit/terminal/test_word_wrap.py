"""Streamed text is broken between words at the edge of a terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.terminal.word_wrap import WordWrap


def printed(*pieces: str, width: int) -> str:
    wrap = WordWrap()
    return "".join(wrap.feed(piece, width) for piece in pieces) + wrap.end(width)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("one two three", "one two\nthree"),
        ("12345678 a\nb", "12345678\na\nb"),
        ("a 1234567890 b", "a\n1234567890 b"),
        ("  - a bb ccc dd", "  - a bb\nccc dd"),
        ("表表表 表表", "表表表\n表表"),
        ("```\none two three\n```\none two three", "```\none two three\n```\none two\nthree"),
        ("one two \nx ", "one two \nx "),
    ],
)
def test_long_lines_are_broken_between_words(text: str, shown: str) -> None:
    assert printed(text, width=8) == shown
    assert printed(*text, width=8) == shown  # a character at a time


def test_only_a_word_near_the_edge_is_held_back() -> None:
    wrap = WordWrap()
    assert wrap.feed("Once upon", 60) == "Once upon"
    assert wrap.feed(" a time, in a far-away la", 60) == " a time, in a far-away"
    assert wrap.feed("nd", 60) == ""
    assert wrap.feed("表" * 20, 60) == "\nland" + "表" * 20  # text without blanks goes on streaming
    assert wrap.end(60) == ""


def test_fence_in_pieces_is_found() -> None:
    code = "x = 1 + " * 12 + "1"
    text = f"Run:\n```python\n{code}\n```\nDone."
    assert printed(*text, width=60) == text


@given(st.lists(st.text("ab \n`表", max_size=9), max_size=9), st.integers(1, 12))
def test_only_blanks_are_replaced(pieces: list[str], width: int) -> None:
    shown, text = printed(*pieces, width=width), "".join(pieces)
    assert "".join(shown.split()) == "".join(text.split())
    assert len(shown) <= len(text)
