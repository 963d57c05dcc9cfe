r"""An edit finds the text that a page shows, where a line end is `\n`, and keeps the bytes of line ends."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from libs.sandbox.guest.files.line_ends import TooLong, replaced

MOST = 10_000


def shown(content: bytes) -> bytes:
    return content.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


@pytest.mark.parametrize(
    ("before", "old", "new", "count", "after"),
    [
        (b"DEL\r\nkeep\nDEL\n", b"DEL\n", b"", 2, b"keep\n"),
        (b"a=1\r\nb\na=1\n", b"a=1\n", b"a=2\n", 2, b"a=2\r\nb\na=2\n"),
        (b"a\r\nb\nc\n", b"a\nb\nc", b"A\nB\nC", 1, b"A\r\nB\nC\n"),
        (b"a\r\nb\nc\n", b"a\nb\nc", b"x\na\nb\nc", 1, b"x\r\na\r\nb\nc\n"),
        (b"a\nb\r\nc\n", b"a\nb\nc", b"a\nb\nx\nc", 1, b"a\nb\r\nx\nc\n"),
        (b"a\nb\r\nc\n", b"b", b"b\nx", 1, b"a\nb\r\nx\r\nc\n"),
        (b"a\r\nb\nc", b"c", b"c\nx", 1, b"a\r\nb\nc\nx"),
        (b"a\rb\nc\n", b"a\nb", b"A\nB", 1, b"A\rB\nc\n"),
        (b"\r\n\n\r\r\n", b"\n\n", b"\n", 2, b"\r\n\r"),
        (b"x\r\nb\r\n\n", b"\n\nb", b"", 0, b"x\r\nb\r\n\n"),
        (b"a\r\nb\r\n", b"a\n", b"a\nx\n", 1, b"a\r\nx\r\nb\r\n"),
        (b"a\rb\r", b"a\n", b"a\nx\n", 1, b"a\rx\rb\r"),
        (b"a\r\nb\na\n", b"a\r\n", b"x\n", 1, b"x\nb\na\n"),
        (b"a\nb\n", b"a\r\nb\r\n", b"x\r\n", 1, b"x\n"),
        (b"a\r\nb\n", b"b\n", b"b\r\n", 1, b"a\r\nb\r\n"),
        (b"a\rb\n", b"b", b"\nb", 1, b"a\r\r\nb\n"),
        (b"\nb\n\r", b"b", b"\n", 1, b"\n\n\n\r"),
        (b"\rb\n", b"b", b"\n", 1, b"\r\r\n\n"),
        (b"\rbb\n", b"b", b"\n", 2, b"\r\r\n\n\n"),
        (b"a\rbb\n", b"b", b"", 2, b"a\r\r\n"),
        (b"\r\r\nb\nb", b"\nb", b"", 2, b"\r"),
    ],
)
def test_line_ends_of_the_file_are_kept(
    before: bytes, old: bytes, new: bytes, count: int, after: bytes
) -> None:
    assert replaced(before, old, new, everywhere=True, most=MOST) == (count, after)


@pytest.mark.parametrize("content", [b"[0, 0, 0]", b"[0, 0, 0]\r\n", b"[0, 0, 0]\r\n\n"])
def test_text_that_overlaps_itself_occurs_twice(content: bytes) -> None:
    assert replaced(content, b"0, 0", b"1, 2", everywhere=False, most=MOST) == (2, content)
    assert replaced(content, b"0, 0", b"1, 2", everywhere=True, most=MOST)[0] == 1


TEXT = st.lists(st.sampled_from([b"a", b"b", b"\n"]), max_size=6).map(b"".join)
CONTENT = st.lists(st.sampled_from([b"a", b"b", b"\r\n", b"\n", b"\r"]), max_size=20).map(b"".join)


@settings(max_examples=1_000)
@given(CONTENT, TEXT.filter(bool), TEXT)
def test_what_is_shown_is_replaced_as_it_is_shown(content: bytes, old: bytes, new: bytes) -> None:
    count, after = replaced(content, old, new, everywhere=True, most=MOST)
    assert count == shown(content).count(old)
    assert shown(after) == shown(content).replace(old, new)
    assert replaced(content, old, old, everywhere=True, most=MOST) == (count, content)


@settings(max_examples=300)
@given(CONTENT, CONTENT, st.sampled_from([b"<\n>", b"<>", b"<\n\n>"]), TEXT)
def test_text_beside_an_edit_keeps_its_bytes(before: bytes, after: bytes, old: bytes, new: bytes) -> None:
    found = old.replace(b"\n", b"\r\n", 1)
    count, result = replaced(before + b"|" + found + b"|" + after, old, new, everywhere=False, most=MOST)
    assert count == 1
    assert result.startswith(before + b"|")
    assert result.endswith(b"|" + after)
    assert shown(result[len(before) + 1 : len(result) - len(after) - 1]) == new


@pytest.mark.parametrize("end", [b"", b"\r"])
def test_time_is_linear_in_the_size_of_the_content(end: bytes) -> None:
    begin = time.process_time()
    content = b"\r\n" * 100_000 + b"\n" + b"x" * 200_000 + end
    count, after = replaced(content, b"x", b"y\nz", everywhere=True, most=10_000_000)
    assert count == 200_000
    assert after.endswith(b"y" + (end or b"\n") + b"z" + end)
    assert time.process_time() - begin < 15


@pytest.mark.parametrize("before", [b"a" * 100, b"a\r\n" * 30, b"a\r\nb\n" * 20])
def test_result_has_a_limit(before: bytes) -> None:
    with pytest.raises(TooLong):
        replaced(before, b"a", b"\n" * 10, everywhere=True, most=150)
