"""Reads a page of a text file and replaces text in a file, inside the sandbox (standard library only).

Both follow deepagents' `BaseSandbox.read` and `edit`, line endings included.
"""

from __future__ import annotations

import base64
import codecs
import os
from typing import IO, Any, Final

from libs.sandbox.guest.files.disk import new_file, open_regular, write_all

__all__ = ["edit", "read_page"]

_MOST_PAGE: Final = 500 * 1024
"""Bytes of one page, and of a binary file in base64."""
_MOST_COUNTED: Final = 16 * 1024 * 1024
"""Largest file in bytes whose lines are all counted."""
_MOST_EDITED: Final = 64 * 1024 * 1024
"""Largest file in bytes that can be edited."""
_PEEK: Final = 8192
_PART: Final = 1 << 20


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
        with open(
            descriptor, encoding="utf-8", errors="surrogateescape", newline=None, closefd=False
        ) as file:
            return _page(file, offset, limit, os.fstat(descriptor).st_size)


def _is_text(head: bytes) -> bool:
    try:
        # Incremental, because the last character may be incomplete.
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return True


def _page(file: IO[str], offset: int, limit: int, size: int) -> dict[str, Any]:
    seen = 0
    while seen < offset:
        line = file.readline(_MOST_PAGE)
        if not line:
            return {"error": "past_end", "detail": f"line offset {offset} exceeds file length ({seen} lines)"}
        seen += line.endswith("\n")
        if not line.endswith("\n") and len(line) < _MOST_PAGE:
            seen += 1
    lines: list[str] = []
    room = _MOST_PAGE
    cut = False
    while len(lines) < limit:
        line = file.readline(room + 1)
        if not line:
            break
        used = len(line.encode("utf-8", "surrogatepass"))
        if used > room:
            # The next page begins with the cut line, unless it is the only line of this page.
            cut = True
            lines.append(line[:room])
            break
        room -= used
        lines.append(line.removesuffix("\n"))
    if not lines:
        return {"error": "past_end", "detail": f"line offset {offset} exceeds file length ({seen} lines)"}
    shown = max(1, len(lines) - cut)
    end = offset + shown
    total = end
    if cut or file.read(1):
        total = _count_lines(file) if size <= _MOST_COUNTED else -1
    raw = "\n".join(lines).encode("utf-8", "surrogateescape")
    content = raw.decode("utf-8", "replace")
    page: dict[str, Any] = {
        "content": content,
        "replaced": content.encode() != raw,
        "start": offset + 1,
        "end": end,
        "total": total if total >= 0 else None,
        "next": end if total < 0 or end < total else None,
        "cut": cut,
    }
    # A page boundary may split a secret: see `host/redacted_results.py`.
    if offset > 0:
        page["cut_before"] = "content"
    if cut or page["next"] is not None:
        page["cut_after"] = "content"
    return page


def _count_lines(file: IO[str]) -> int:
    file.seek(0)
    count = 0
    last = "\n"
    while block := file.read(1 << 20):
        count += block.count("\n")
        last = block
    return count + (not last.endswith("\n"))


def edit(path: str, old: str, new: str, replace_all: bool) -> dict[str, Any]:
    """Replace `old` by `new`, once or everywhere.

    A page shows plain line ends. So in a file whose lines all end with CRLF, `old` and `new` get such line
    ends, unless they hold a carriage return. If `old` does not occur, it is tried with the other line ends,
    and `new` gets the same line ends.
    """
    if not old:
        return {"error": "empty_old"}
    with open_regular(path) as descriptor, open(descriptor, "rb", closefd=False) as raw:
        content = raw.read(_MOST_EDITED + 1)
    if len(content) > _MOST_EDITED:
        return {"error": "too_large", "detail": f"only files up to {_MOST_EDITED} bytes are edited"}
    if not _is_utf_8(content):
        return {"error": "not_text"}
    count = 0
    crlf = "\r" not in old + new and content.count(b"\n") == content.count(b"\r\n")
    for ending in ("\r\n" if crlf and b"\n" in content else None, None, "\r\n", "\n", "\r"):
        wanted, given = (_with_endings(text, ending).encode("utf-8") for text in (old, new))
        count = content.count(wanted)
        if count:
            break
    if count == 0:
        return {"error": "not_found"}
    if count > 1 and not replace_all:
        return {"error": "ambiguous", "detail": str(count)}
    size = len(content) + count * (len(given) - len(wanted))
    if size > _MOST_EDITED:
        detail = f"the changed file would have {size} bytes, and only files up to {_MOST_EDITED} are edited"
        return {"error": "too_large", "detail": detail}
    with new_file(path, replace=True) as file:
        write_all(file, content.replace(wanted, given))
    return {"count": count}


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


def _with_endings(text: str, ending: str | None) -> str:
    return text if ending is None else text.replace("\r\n", "\n").replace("\n", ending)
