"""Reads a page of a text file and replaces text in a file, inside the sandbox (standard library only)."""

from __future__ import annotations

import base64
import codecs
import os
import re
from itertools import islice
from typing import Any, Final

from libs.sandbox.guest.files.disk import open_regular
from libs.sandbox.guest.files.line_ends import TooLong, replaced
from libs.sandbox.guest.files.rewrite import rewrite

__all__ = ["edit", "read_page"]

_MOST_PAGE: Final = 500 * 1024
"""Bytes of one page, and of a binary file in base64."""
_MOST_CUT: Final = 50_000
"""Bytes of a page that is the beginning of one line. deepagents cuts results of over 80,000 characters: it
would leave out the note about the rest, and take the length of the page for that of the line."""
_MOST_COUNTED: Final = 16 * 1024 * 1024
"""Largest file in bytes whose lines are all counted."""
_MOST_EDITED: Final = 64 * 1024 * 1024
"""Largest file in bytes that can be edited."""
_PEEK: Final = 8192
_PART: Final = 1 << 20
_END: Final = re.compile(rb"\r\n?|\n")


def read_page(path: str, offset: int, limit: int, text: bool) -> dict[str, Any]:
    """Return lines `offset` to `offset + limit` of a file, or a whole binary file in base64.

    Args:
        offset: lines to skip.
        limit: maximum number of lines.
        text: whether the file name means text. The content may still be binary.
    """
    with open_regular(path) as descriptor:
        head = os.pread(descriptor, _PEEK, 0)
        if not head:
            return {"empty": True}
        if not text or not _is_text(head):
            with open(descriptor, "rb", closefd=False) as raw:
                content = raw.read(_MOST_PAGE + 1)
            if len(content) > _MOST_PAGE:
                detail = f"Binary file exceeds maximum preview size of {_MOST_PAGE} bytes"
                return {"error": "too_large", "detail": detail}
            return {"base64": base64.b64encode(content).decode()}
        if limit <= 0:
            return {"none_asked": True}
        return _page(descriptor, offset, limit)


def _is_text(head: bytes) -> bool:
    try:
        # Incremental, because the last character may be incomplete.
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return True


def _page(descriptor: int, offset: int, limit: int) -> dict[str, Any]:
    place, passed = _line(descriptor, offset)
    size = os.fstat(descriptor).st_size
    os.lseek(descriptor, place, os.SEEK_SET)
    lines: list[str] = []
    room = _MOST_PAGE
    cut = False
    with open(descriptor, encoding="utf-8", errors="surrogateescape", newline=None, closefd=False) as file:
        while len(lines) < limit and room > 0:
            line = file.readline(room + 1)
            if not line:
                break
            coded = line.encode("utf-8", "surrogateescape")
            if len(coded.removesuffix(b"\n")) > room:
                # The next page begins with the cut line, unless it is the only line of this page.
                cut = True
                coded = coded[: room if lines else min(room, _MOST_CUT)]
                lines.append(codecs.getincrementaldecoder("utf-8")("surrogateescape").decode(coded))
                break
            room -= len(coded)
            lines.append(line.removesuffix("\n"))
        if not lines:
            detail = f"line offset {offset} exceeds file length ({passed} lines)"
            return {"error": "past_end", "detail": detail}
        end = offset + max(1, len(lines) - cut)
        total: int | None = end
        if cut or file.read(1):
            total = _line(descriptor)[1] if size <= _MOST_COUNTED else None
    raw = "\n".join(lines).encode("utf-8", "surrogateescape")
    content = raw.decode("utf-8", "replace")
    page: dict[str, Any] = {
        "content": content,
        "replaced": content.encode() != raw,
        "start": offset + 1,
        "end": end,
        "total": total,
        "next": end if total is None or end < total else None,
        "cut": cut,
    }
    if cut and len(lines) == 1:
        page["rest"] = place + len(raw)
    # A page boundary may split a secret: see `host/redacted_results.py`.
    if offset > 0:
        page["cut_before"] = "content"
    if cut or page["next"] is not None:
        page["cut_after"] = "content"
    return page


def _line(descriptor: int, number: int | None = None) -> tuple[int, int]:
    """Return the place where a line begins and its number, or size and number of lines of a shorter file.

    Args:
        number: lines before the line. None: all.
    """
    place = passed = 0
    last = b"\n"
    os.lseek(descriptor, 0, os.SEEK_SET)
    with open(descriptor, "rb", closefd=False) as file:
        while number is None or passed < number:
            block = file.read(_PART)
            if block.endswith(b"\r") and file.peek(1)[:1] == b"\n":  # half of a line end
                block += file.read(1)
            if not block:
                return place, passed + (last not in b"\r\n")
            ends = block.count(b"\n") + block.count(b"\r") - block.count(b"\r\n")
            if number is not None and passed + ends >= number:
                found = next(islice(_END.finditer(block), number - passed - 1, None))
                return place + found.end(), number
            passed += ends
            place += len(block)
            last = block[-1:]
    return place, passed


def edit(path: str, old: str, new: str, replace_all: bool) -> dict[str, Any]:
    """Replace `old` by `new`, once or everywhere: see `line_ends.replaced` and `rewrite.rewrite`."""
    if not old:
        return {"error": "empty_old"}
    answer: dict[str, Any] = {}

    def change(file: int) -> bytes | None:
        nonlocal answer
        with open(file, "rb", closefd=False) as raw:
            content = raw.read(_MOST_EDITED + 1)
        if len(content) > _MOST_EDITED:
            answer = {"error": "too_large", "detail": f"only files up to {_MOST_EDITED} bytes are edited"}
            return None
        if not _is_utf_8(content):
            answer = {"error": "not_text"}
            return None
        try:
            count, content = replaced(
                content, old.encode(), new.encode(), everywhere=replace_all, most=_MOST_EDITED
            )
        except TooLong:
            detail = f"the changed file would have more than {_MOST_EDITED} bytes, the limit of an edit"
            answer = {"error": "too_large", "detail": detail}
            return None
        if count == 1 or (count and replace_all):
            answer = {"count": count}
            return content
        answer = {"error": "ambiguous", "detail": str(count)} if count else {"error": "not_found"}
        return None

    rewrite(path, change)
    return answer


def _is_utf_8(content: bytes) -> bool:
    """Return whether content is UTF-8. Decodes parts, because a whole `str` may take 4 times the memory."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for at in range(0, len(content), _PART):
            decoder.decode(content[at : at + _PART])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True
