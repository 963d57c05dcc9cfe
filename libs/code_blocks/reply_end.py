"""Find where to cut a reply in which the model invents the output of its code."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import islice

from libs.code_blocks.block_reader import open_here_document, read_reply

__all__ = ["first_block", "imagined"]

_IMAGINED = re.compile(
    r"^(?:`{3,}output\b|(?:The (?:python|bash) block|Block \d+ \((?:python|bash)\)) (?:succeeded|failed)\b)",
    re.MULTILINE,
)

_FENCE = re.compile(r"^[ \t>]*(?:`{3,}|~{3,})[ \t\r]*$", re.MULTILINE)
"""A line that can close a block."""

_MOST_LINES = 50
"""Lines at which a reply may end that are tried. For each, the reply is parsed up to it."""


def first_block(reply: str) -> int | None:
    """Return the index of the end of the first runnable block. None: the first fifty fences end none."""
    for found in islice(_FENCE.finditer(reply), _MOST_LINES):
        if _has_whole_blocks(reply[: found.end()]):
            return found.end()
    return None


def imagined(reply: str) -> int | None:
    """Return the index at which a reply begins to imitate the loop's output messages, or None.

    Only the first fifty lines that look like it are tried.
    """
    for found in islice(_IMAGINED.finditer(reply), _MOST_LINES):
        if _has_whole_blocks(reply[: found.start()]):  # otherwise the match is inside a block
            return found.start()
    return None


@lru_cache(8 * _MOST_LINES)  # each of a few streams asks about the same beginnings after each line
def _has_whole_blocks(reply: str) -> bool:
    """Return whether the beginning of a reply has blocks, the last of which does not go on.

    A block whose here-document is open goes on: a fence of the document has ended it for the reader. At an
    indented end, bash goes on, but the model has meant the end.
    """
    begun = read_reply(reply)
    if not begun.blocks or begun.problem:
        return False
    last = begun.blocks[-1]
    return last.language != "bash" or open_here_document(last.code, indented=True) is None
